package schemas_test

import (
	"testing"

	"github.com/toolgate/toolgate/proxy/schemas"
)

// The work for all tools of the catalog.
func BenchmarkSignature(b *testing.B) {
	tools := catalog(b)
	b.ReportAllocs()
	for b.Loop() {
		for i := range tools {
			schemas.Signature(tools[i].Name, tools[i].InputSchema, 400)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(tools)), "ns/tool")
}

func BenchmarkCompact(b *testing.B) {
	tools := catalog(b)
	b.ReportAllocs()
	for b.Loop() {
		for i := range tools {
			schemas.Compact(tools[i].InputSchema)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(tools)), "ns/tool")
}

func BenchmarkStrict(b *testing.B) {
	tools := catalog(b)
	b.ReportAllocs()
	for b.Loop() {
		for i := range tools {
			schemas.Strict(tools[i].InputSchema)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(tools)), "ns/tool")
}
