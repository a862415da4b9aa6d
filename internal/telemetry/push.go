package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/toolgate/toolgate/config/secret"
)

// Push sends the metrics to a collector, at intervals, as OTLP over HTTP. What is sent
// is what Prometheus would read.
type Push struct {
	every time.Duration
	send  *pushed
}

// NewPush returns what sends metrics to the collector of the options. Nothing is sent
// before [Push.Run].
func NewPush(ctx context.Context, m *Metrics, o TraceOptions) (*Push, error) {
	endpoint, err := signalURL(o.OTLP, "metrics")
	if err != nil {
		return nil, err
	}
	exporter, err := otlpmetrichttp.New(ctx,
		otlpmetrichttp.WithEndpointURL(endpoint), otlpmetrichttp.WithHeaders(secret.Reveal(o.Headers)), otlpmetrichttp.WithTimeout(exportTime),
		otlpmetrichttp.WithHTTPClient(collectorClient()),
		// The next interval sends the same counters, and newer.
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: false}),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare the metrics for a collector: %w", err)
	}
	about, err := describe(ctx, o)
	if err != nil {
		return nil, err
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	// The registry is gathered when the reader is asked, which only Run does.
	reader := metric.NewManualReader(metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(m.catalog.registry))))
	provider := metric.NewMeterProvider(metric.WithResource(about), metric.WithReader(reader))
	return &Push{every: o.Metrics, send: &pushed{exporter: exporter, reader: reader, provider: provider, log: log}}, nil
}

// Run sends the metrics at each interval until the context ends, and then once more
// within five seconds.
func (p *Push) Run(ctx context.Context) error {
	due := time.NewTicker(p.every)
	defer due.Stop()
	for {
		select {
		case <-due.C:
			p.send.once(ctx)
			continue
		case <-ctx.Done():
		}
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
		defer cancel()
		p.send.once(late)
		return errors.Join(p.send.provider.Shutdown(late), p.send.exporter.Shutdown(late))
	}
}

// pushed is what a [Push] sends, and to whom. One goroutine uses it.
type pushed struct {
	exporter *otlpmetrichttp.Exporter
	reader   *metric.ManualReader
	provider *metric.MeterProvider
	log      *slog.Logger
	failing  bool
}

// once sends the metrics. Of consecutive failures it logs only the first, and then the
// recovery.
func (p *pushed) once(outer context.Context) {
	ctx, cancel := context.WithTimeout(outer, exportTime)
	defer cancel()
	var all metricdata.ResourceMetrics
	err := p.reader.Collect(ctx, &all)
	if err == nil {
		err = p.exporter.Export(ctx, &all)
	}
	switch {
	case err != nil && errors.Is(outer.Err(), context.Canceled): // the gateway ends, and sends them once more
		return
	case err != nil && !p.failing:
		p.log.Warn("metrics do not reach the collector; the next interval sends them again", "err", err)
	case err == nil && p.failing:
		p.log.Info("metrics reach the collector again")
	}
	p.failing = err != nil
}

// signalURL returns the address of a collector for one signal: traces or metrics. An
// address with a path is that of traces, and has to end as such for metrics.
func signalURL(endpoint, signal string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("the collector's address %q is not a URL; write one such as http://127.0.0.1:4318", endpoint)
	}
	const traces = "/v1/traces"
	switch base, ends := strings.CutSuffix(u.Path, traces); {
	case u.Path == "" || u.Path == "/":
		u.Path = "/v1/" + signal
	case signal == "traces":
	case ends:
		u.Path = base + "/v1/" + signal
	default:
		return "", fmt.Errorf("the path of the collector's address %q does not end in %s, so the one for %s is unknown; write the address without a path", endpoint, traces, signal)
	}
	return u.String(), nil
}

// collectorClient returns a client for a collector. It follows no redirects, because
// the headers hold credentials.
func collectorClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 2, 2
	return &http.Client{
		Timeout: exportTime, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
