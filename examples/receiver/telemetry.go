package main

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spans reads traces as they come over HTTP.
func spans(token string) reader {
	return func(r *http.Request, body []byte) (batch string, more []string, err error) {
		if err := authorized(r, token); err != nil {
			return "", nil, err
		}
		var got collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &got); err != nil {
			return "", nil, err
		}
		for _, resource := range got.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					more = append(more, spanLine(s))
				}
			}
		}
		return "", more, nil
	}
}

// authorized refuses what comes without the token of the collector.
func authorized(r *http.Request, token string) error {
	if token == "" || subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+token)) != 1 {
		return errors.New("this comes without the token of the collector (COLLECTOR_TOKEN)")
	}
	return nil
}

// spanLine describes a span: its trace, its parent and its attributes.
func spanLine(s *tracepb.Span) string {
	kind := strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"))
	var text strings.Builder
	fmt.Fprintf(&text, "trace %x span %x in %x %s %s", s.GetTraceId(), s.GetSpanId(), s.GetParentSpanId(), kind, s.GetName())
	for _, a := range s.GetAttributes() {
		fmt.Fprintf(&text, " %s=%s", a.GetKey(), a.GetValue().GetStringValue())
	}
	return text.String()
}

// printMetrics prints the samples of counters and gauges, and the counts of histograms.
func printMetrics(body io.Reader) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(body)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		for _, m := range families[name].GetMetric() {
			fmt.Printf("%s{%s} %v\n", name, labels(m), sample(m))
		}
	}
	return nil
}

func labels(m *dto.Metric) string {
	var all []string
	for _, l := range m.GetLabel() {
		all = append(all, l.GetName()+"="+l.GetValue())
	}
	return strings.Join(all, ",")
}

func sample(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	}
	return m.GetUntyped().GetValue()
}
