package exporter

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/config"
)

const (
	defaultAddress   = ":9850"
	defaultNamespace = "default"
	defaultTimeout   = 10 * time.Second
	defaultGuests    = time.Minute
	defaultSeries    = 200_000
	// margin is the part of Prometheus's timeout that is left for building and sending the response.
	margin = 500 * time.Millisecond
	// scrapesAtOnce limits the parallel scrapes: two Prometheus servers and a user.
	scrapesAtOnce = 3
	headerTimeout = 10 * time.Second
	// writeTimeout limits sending a response after the scrape: a reader that is slower has probably stopped reading.
	// idleTimeout is longer than Prometheus's usual intervals, so that it keeps its connection.
	writeTimeout = 30 * time.Second
	idleTimeout  = 5 * time.Minute
	maxHeader    = 16 << 10
)

// options are the command line's options.
type options struct {
	config, address, webConfig, namespace, labels string
	timeout, guests                               time.Duration
	series                                        int
}

func parseArguments(args []string, out io.Writer) (options, error) {
	var o options
	f := config.NewFlags("exporter")
	f.StringVar(&o.address, "web.listen-address", defaultAddress, "addresses to listen on, with commas between them")
	f.StringVar(&o.webConfig, "web.config.file", "", "file that enables TLS or authentication, see "+
		"https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md")
	f.StringVar(&o.namespace, "namespace", defaultNamespace, "value of the label namespace")
	f.StringVar(&o.labels, "vm-labels", "*", "labels of virtual machines that become labels of series, with commas "+
		"between them; * is all, at most "+strconv.Itoa(maxLabels)+" of each")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "how long a scrape waits for hosts, unless Prometheus's own "+
		"timeout is shorter")
	f.DurationVar(&o.guests, "guest-interval", defaultGuests, "how often guest agents are asked for the guest's system "+
		"and filesystems, between scrapes; 0 is never")
	f.IntVar(&o.series, "max-series", defaultSeries, "how many series a scrape gives at most")
	if err := f.Parse(args, out); err != nil {
		return o, err
	}
	o.config = f.Config
	if o.timeout <= 0 || o.series <= 0 {
		return o, errors.New("-timeout and -max-series must be more than 0")
	}
	if o.guests < 0 {
		return o, errors.New("-guest-interval must be at least 0")
	}
	return o, nil
}

// Run serves metrics until ctx ends, and then waits for running scrapes. It logs to out.
func Run(ctx context.Context, args []string, version string, open config.Opener, out io.Writer) error {
	o, err := parseArguments(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(out, nil))
	f, err := config.Open(ctx, o.config, open, log)
	if err != nil {
		return err
	}
	background, stop := context.WithCancel(ctx)
	defer stop()
	s := &scraper{
		fleet: f, namespace: o.namespace, labels: newLabelChoice(o.labels), limit: o.series, log: log,
		guests: newGuests(o.guests), background: background, transitions: newTransitions(log), down: map[string]string{},
	}
	var following sync.WaitGroup
	for _, host := range f.AskedHosts() {
		following.Go(func() {
			// The next scrape finds what a host doesn't report.
			if err := f.Follow(background, host, s.noteEvent); err != nil {
				log.WarnContext(background, "events can't be followed", "host", host, "error", err.Error())
			}
		})
	}
	err = serveMetrics(ctx, o, newHandler(s, version, o.timeout), log)
	stop()
	s.guests.work.Wait()
	following.Wait()
	return errors.Join(err, f.Close())
}

// serveMetrics serves requests until ctx ends.
func serveMetrics(ctx context.Context, o options, handler http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: o.timeout + writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	addresses, systemd := strings.Split(o.address, ","), false
	served := make(chan error, 1)
	go func() {
		served <- web.ListenAndServe(server, &web.FlagConfig{
			WebListenAddresses: &addresses, WebSystemdSocket: &systemd, WebConfigFile: &o.webConfig,
		}, log)
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	log.Info("stopping")
	// A scrape takes no longer than its timeout, so the shutdown doesn't either.
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.timeout+margin)
	defer cancel()
	err := server.Shutdown(stopping)
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}

// newHandler serves the metrics, and a health check.
func newHandler(s *scraper, version string, timeout time.Duration) http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "virtfleet_exporter_build_info", Help: "The exporter's version. Value is 1.",
			ConstLabels: prometheus.Labels{"version": version},
		}, func() float64 { return 1 }),
	)
	places := make(chan struct{}, scrapesAtOnce)
	mux := http.NewServeMux()
	// An error in one series costs only that series.
	sending := promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelError),
	}
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
		default:
			http.Error(w, "too many scrapes at once", http.StatusServiceUnavailable)
			return
		}
		found := s.scrapeWithin(r, scrapeTimeout(r, timeout))
		<-places // however long it takes to send the response, the next scrape has a place
		promhttp.HandlerFor(prometheus.Gatherers{own, found}, sending).ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "OK") })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "virtfleet exporter: see /metrics")
	})
	return mux
}

// scrapeWithin scrapes once, for at most limit.
func (s *scraper) scrapeWithin(r *http.Request, limit time.Duration) *families {
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	return s.scrapeHosts(ctx)
}

// scrapeTimeout returns how long a scrape may take: the configured timeout, but a little less than Prometheus waits.
func scrapeTimeout(r *http.Request, timeout time.Duration) time.Duration {
	seconds, err := strconv.ParseFloat(r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds"), 64)
	if err != nil || seconds <= 0 {
		return timeout
	}
	theirs := time.Duration(seconds * float64(time.Second))
	return min(timeout, max(theirs-margin, theirs/2))
}
