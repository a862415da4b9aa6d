package main

import (
	"fmt"
	"net/http"
	"strings"

	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// counters reads metrics as they come over HTTP: the counters of tools, of which there
// are few.
func counters(token string) reader {
	return func(r *http.Request, body []byte) (batch string, more []string, err error) {
		if err := authorized(r, token); err != nil {
			return "", nil, err
		}
		var got collector.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &got); err != nil {
			return "", nil, err
		}
		for _, resource := range got.GetResourceMetrics() {
			for _, scope := range resource.GetScopeMetrics() {
				for _, m := range scope.GetMetrics() {
					if strings.HasPrefix(m.GetName(), "tool_") {
						more = append(more, counterLines(m)...)
					}
				}
			}
		}
		return "", more, nil
	}
}

// counterLines describes a counter, one line for each of its values.
func counterLines(m *metricpb.Metric) (lines []string) {
	for _, p := range m.GetSum().GetDataPoints() {
		var labels []string
		for _, a := range p.GetAttributes() {
			labels = append(labels, a.GetKey()+"="+a.GetValue().GetStringValue())
		}
		lines = append(lines, fmt.Sprintf("%s{%s} %v", m.GetName(), strings.Join(labels, ","), p.GetAsDouble()))
	}
	return lines
}
