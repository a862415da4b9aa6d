package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolgate/toolgate/config/secret"
)

// TraceOptions configure [Traces] and [Push].
type TraceOptions struct {
	Settings

	// Version and Instance describe this gateway.
	Version, Instance string
	Logger            *slog.Logger // nil discards
}

// Traces sends spans to a collector while it runs. It is safe for concurrent use.
type Traces struct {
	sample   float64
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	outbox   *outbox
}

// NewTraces returns traces. Nothing is sent before [Traces.Run].
func NewTraces(ctx context.Context, o TraceOptions) (*Traces, error) {
	endpoint, err := signalURL(o.OTLP, "traces")
	if err != nil {
		return nil, err
	}
	exporter := otlptrace.NewUnstarted(otlptracehttp.NewClient(
		otlptracehttp.WithEndpointURL(endpoint), otlptracehttp.WithHeaders(secret.Reveal(o.Headers)), otlptracehttp.WithTimeout(exportTime),
		otlptracehttp.WithHTTPClient(collectorClient()),
		// Retry only briefly, because the next batch is waiting.
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: exportTime}),
	))
	about, err := describe(ctx, o)
	if err != nil {
		return nil, err
	}
	t := &Traces{sample: o.Sample, outbox: newOutbox(exporter, o.Logger)}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithResource(about), sdktrace.WithSpanProcessor(t.outbox),
		sdktrace.WithSampler(sdktrace.AlwaysSample()), // calls that are not traced have no span
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: 256, AttributeCountLimit: 32, EventCountLimit: 8, LinkCountLimit: 8,
			AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 8,
		}),
	)
	t.tracer = t.provider.Tracer("toolgate", trace.WithInstrumentationVersion(o.Version))
	return t, nil
}

// describe returns the resource that the signals are of.
func describe(ctx context.Context, o TraceOptions) (*resource.Resource, error) {
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "toolgate"), attribute.String("service.version", o.Version), attribute.String("service.instance.id", o.Instance),
	), resource.WithFromEnv()) // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return about, nil
}

// Run sends spans until the context ends, and then the rest within five seconds.
func (t *Traces) Run(ctx context.Context) error {
	err := t.outbox.run(ctx)
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	return errors.Join(err, t.provider.Shutdown(late))
}

// Dropped returns how many spans were not sent, because the collector was too slow or
// down.
func (t *Traces) Dropped() uint64 { return t.outbox.dropped.Load() }

// Begin begins the span of a call with the W3C trace context of its request; both may
// be empty. It returns nil for a call that is not traced, by the caller's decision or
// by sampling. A malformed context counts as none.
func (t *Traces) Begin(traceparent, tracestate string, began time.Time) *Span {
	ctx := context.Background()
	if traceparent != "" {
		carrier := propagation.MapCarrier{"traceparent": traceparent, "tracestate": tracestate}
		ctx = propagation.TraceContext{}.Extract(ctx, carrier)
	}
	if parent := trace.SpanContextFromContext(ctx); parent.IsValid() {
		if !parent.IsSampled() {
			return nil
		}
	} else if t.sample <= 0 || rand.Float64() >= t.sample { // chance is all that is wanted
		return nil
	}
	s := &Span{tracer: t.tracer, began: began}
	s.ctx, s.span = t.tracer.Start(ctx, "call", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began))
	return s
}

// Span is the span of one call. It belongs to the goroutine of the call.
type Span struct {
	tracer trace.Tracer
	ctx    context.Context // it holds the span and is used for nothing else
	span   trace.Span
	began  time.Time
	sent   trace.Span // of the request to a server; nil without one
}

// TraceID returns the id of the trace in hexadecimal.
func (s *Span) TraceID() string { return s.span.SpanContext().TraceID().String() }

// Send begins the span of a request to a server, and returns the trace context for the
// server; tracestate may be empty.
func (s *Span) Send(about ...attribute.KeyValue) (traceparent, tracestate string) {
	if s.sent != nil {
		s.sent.End()
	}
	var ctx context.Context
	ctx, s.sent = s.tracer.Start(s.ctx, "request", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(about...))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"], carrier["tracestate"]
}

// Received ends the span of the request to a server.
func (s *Span) Received(name, errorType string) {
	if s.sent != nil {
		s.sent.SetName(name)
		fail(s.sent, errorType)
		s.sent.End()
		s.sent = nil
	}
}

// Phase adds the span of a finished phase; from and to are times since the call
// arrived.
func (s *Span) Phase(name string, from, to time.Duration, about ...attribute.KeyValue) {
	_, span := s.tracer.Start(s.ctx, name, trace.WithTimestamp(s.began.Add(from)), trace.WithAttributes(about...))
	span.End(trace.WithTimestamp(s.began.Add(to)))
}

// End ends the span of the call. errorType is empty for a success.
func (s *Span) End(name, errorType string, about ...attribute.KeyValue) {
	s.Received(name, errorType) // for a call that ended while it waited
	s.span.SetName(name)
	s.span.SetAttributes(about...)
	fail(s.span, errorType)
	s.span.End()
}

func fail(span trace.Span, errorType string) {
	if errorType == "" {
		return
	}
	span.SetAttributes(attribute.String("error.type", errorType))
	span.SetStatus(codes.Error, "")
}
