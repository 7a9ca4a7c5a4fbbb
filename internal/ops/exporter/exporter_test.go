package exporter

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/crypto/bcrypt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/opstest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider"
)

func TestMain(m *testing.M) { opstest.Main(m) }

// running is an exporter that runs.
type running struct {
	t      testing.TB
	client *http.Client
	url    string
	log    *opstest.Output
	stop   func() error
}

// start runs the command with that configuration file until the test ends.
func start(t testing.TB, config string, args ...string) *running {
	t.Helper()
	file := opstest.File(t, config)
	r := &running{t: t, client: &http.Client{Transport: &http.Transport{}}, log: &opstest.Output{}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	// A host that is only slow isn't to be taken for a silent one, unless a test asks for that.
	args = append([]string{"--config", file, "--web.listen-address", "127.0.0.1:0", "--timeout", "5m"}, args...)
	go func() { ended <- Run(ctx, args, "test", provider.Open, r.log) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		if err := r.stop(); err != nil {
			t.Errorf("the exporter ended with %v", err)
		}
	})
	listening := regexp.MustCompile(`address=(\S+)`)
	deadline, tick := time.After(time.Minute), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		if m := listening.FindStringSubmatch(r.log.String()); m != nil {
			r.url = "http://" + m[1]
			return r
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the exporter ended with %v: %s", err, r.log)
		case <-deadline:
			t.Fatalf("the exporter doesn't listen: %s", r.log)
		case <-tick.C:
		}
	}
}

// scraped are the values of series, by names with labels as Prometheus writes them.
type scraped map[string]float64

// get gives the status and the body of an answer.
func (r *running) get(path string) (status int, body []byte, err error) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, errors.Join(err, resp.Body.Close())
}

// scrape scrapes once, over HTTP.
func (r *running) scrape() (scraped, map[string]*dto.MetricFamily) {
	r.t.Helper()
	status, body, err := r.get("/metrics")
	if err != nil || status != http.StatusOK {
		r.t.Fatalf("got %d, %v", status, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	return flat(families), families
}

func flat(families map[string]*dto.MetricFamily) scraped {
	all := scraped{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			var pairs []string
			for _, l := range m.GetLabel() {
				pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			slices.Sort(pairs)
			value := m.GetGauge().GetValue()
			if family.GetType() == dto.MetricType_COUNTER {
				value = m.GetCounter().GetValue()
			}
			all[name+"{"+strings.Join(pairs, ",")+"}"] = value
		}
	}
	return all
}

// series finds the series of a name whose labels contain all of the parts.
func (s scraped) series(name string, parts ...string) []string {
	var found []string
	for _, id := range slices.Sorted(maps.Keys(s)) {
		if strings.HasPrefix(id, name+"{") &&
			!slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(id, part) }) {
			found = append(found, id)
		}
	}
	return found
}

// one is the value of the only such series.
func (s scraped) one(t testing.TB, name string, parts ...string) float64 {
	t.Helper()
	found := s.series(name, parts...)
	if len(found) != 1 {
		t.Errorf("%d series of %s with %v: %v", len(found), name, parts, found)
		return -1
	}
	return s[found[0]]
}

func TestExporter_onTheTestDriver(t *testing.T) {
	t.Parallel()
	r := start(t, "uri: test:///default\n", "--namespace", "lab")
	all, families := r.scrape()
	if all.one(t, "virtfleet_host_up", `node="default"`) != 1 {
		t.Error("the host isn't up")
	}
	all.one(t, "kubevirt_vmi_info", `name="test"`, `namespace="lab"`, `node="default"`, `phase="running"`)
	all.one(t, "virtfleet_exporter_build_info", `version="test"`)
	if families["virtfleet_libvirt_calls_total"].GetType() != dto.MetricType_COUNTER {
		t.Error("calls are no counter")
	}
	if status, _, err := r.get("/-/healthy"); err != nil || status != http.StatusOK {
		t.Errorf("got %d, %v", status, err)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if _, _, err := r.get("/metrics"); err == nil {
		t.Error("a stopped exporter answers")
	}
}

// TestLogSilence: a host that doesn't answer is logged once for each reason.
func TestLogSilence(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := &scraper{log: slog.New(slog.NewTextHandler(&log, nil)), down: map[string]string{}}
	for _, why := range []string{"", "no answer for 1.2s", "no answer for 900ms", "no answer for 3s", "bad key", "", ""} {
		a := answer{host: "kvm1"}
		if why != "" {
			a.err = errors.New(why)
		}
		s.logSilence(t.Context(), a)
	}
	for said, want := range map[string]int{"no answer for": 1, "bad key": 1, "answers again": 1, "does not answer": 2} {
		if n := strings.Count(log.String(), said); n != want {
			t.Errorf("%q is logged %d times, want %d: %s", said, n, want, log.String())
		}
	}
}

// TestExporter_protected proves that the toolkit's file is heeded: TLS, and who may ask.
func TestExporter_protected(t *testing.T) {
	t.Parallel()
	// It has a certificate for 127.0.0.1, and a client that trusts it.
	known := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(known.Close)
	identity := known.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(identity.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: identity.Certificate[0]}),
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"web.yaml": []byte("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n" +
			"basic_auth_users: {scraper: " + string(hash) + "}\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, "uri: test:///default\n", "--web.config.file", filepath.Join(dir, "web.yaml"))
	address := strings.TrimPrefix(r.url, "http://")
	stranger := r.client
	for _, c := range []struct {
		client *http.Client
		url    string
		status int
	}{
		{stranger, "http://scraper:secret@" + address, http.StatusBadRequest},
		{stranger, "https://scraper:secret@" + address, 0},
		{known.Client(), "https://" + address, http.StatusUnauthorized},
		{known.Client(), "https://scraper:wrong@" + address, http.StatusUnauthorized},
		{known.Client(), "https://scraper:secret@" + address, http.StatusOK},
	} {
		r.client, r.url = c.client, c.url
		if status, _, err := r.get("/metrics"); status != c.status || (err != nil) != (c.status == 0) {
			t.Errorf("%s: got %d, %v; want %d", c.url, status, err, c.status)
		}
	}
}

// TestExporter_isBounded proves that more series than allowed are left out, and that this is told.
func TestExporter_isBounded(t *testing.T) {
	t.Parallel()
	const most = 2
	all, _ := start(t, "uri: test:///default\n").scrape()
	few, _ := start(t, "uri: test:///default\n", "--max-series", strconv.Itoa(most)).scrape()
	machines := func(s scraped) (n int) {
		for id := range s {
			if strings.HasPrefix(id, "kubevirt_") {
				n++
			}
		}
		return n
	}
	if dropped := all.one(t, "virtfleet_exporter_dropped_series"); dropped != 0 || machines(all) <= most {
		t.Errorf("without a limit to speak of: %d series, %v dropped", machines(all), dropped)
	}
	dropped := int(few.one(t, "virtfleet_exporter_dropped_series"))
	if n := machines(few); n > most || dropped == 0 || n+dropped < machines(all) {
		t.Errorf("%d series of %d, %d dropped; want at most %d", n, machines(all), dropped, most)
	}
}

// TestHandler_boundsItsScrapes proves that who scrapes too often is sent away, and no other client.
func TestHandler_boundsItsScrapes(t *testing.T) {
	t.Parallel()
	f, err := fleet.New(fleet.Config{
		Hosts: map[string]fleet.HostConfig{"local": {URI: "test:///default"}}, Owner: "alice",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	log := slog.New(slog.DiscardHandler)
	s := &scraper{
		fleet: f, limit: defaultSeries, log: log, guests: newGuests(0), background: t.Context(),
		transitions: newTransitions(log), down: map[string]string{},
	}
	handler := newHandler(s, "test", time.Minute)

	// Whoever reads its answer slowly, or not at all, keeps no scrape from its place.
	stuck := make(chan struct{})
	var slow sync.WaitGroup
	for range scrapesAtOnce + 1 {
		began := make(chan struct{})
		slow.Go(func() {
			w := &slowReader{ResponseRecorder: httptest.NewRecorder(), began: began, until: stuck}
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
			if w.Code != http.StatusOK {
				t.Errorf("a slow reader got %d", w.Code)
			}
		})
		<-began
	}
	defer slow.Wait()
	defer close(stuck)

	s.mu.Lock() // No scrape gets past what it has to say of a host.
	answers := make(chan int)
	for range scrapesAtOnce + 2 {
		go func() {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
			answers <- w.Code
		}()
	}
	for range 2 {
		if code := <-answers; code != http.StatusServiceUnavailable {
			t.Errorf("one scrape too many got %d", code)
		}
	}
	s.mu.Unlock()
	for range scrapesAtOnce {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("a scrape got %d", code)
		}
	}
}

func TestRun_refuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte("hosts: {a: {url: secret}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--config", file}, "hosts.a.url: the provider block has no such attribute"},
		{[]string{"--config", file + "x"}, "no such file"},
		{[]string{"--timeout", "0s"}, "-timeout"},
		{[]string{"--guest-interval", "-5s"}, "-guest-interval"},
		{[]string{"now"}, `unexpected argument "now"`},
	} {
		var out opstest.Output
		err := Run(t.Context(), test.args, "test", provider.Open, &out)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: got %v, want %s", test.args, err, test.want)
		}
	}
}

func TestFamilies_areLimited(t *testing.T) {
	t.Parallel()
	f := newFamilies(2)
	for i := range 5 {
		f.add(vmInfo, new(1.0), labels{}.with("name", fmt.Sprint(i)))
	}
	f.add(vmInfo, nil, nil)
	if len(f.all[vmInfo.name].Metric) != 2 || f.dropped != 3 {
		t.Errorf("%d series, %d dropped", len(f.all[vmInfo.name].Metric), f.dropped)
	}
}

// TestVMs_areLimited proves that no VM, and no guest, makes as many labels and series as it likes.
func TestVMs_areLimited(t *testing.T) {
	t.Parallel()
	vm, guest := &fleet.VM{}, &libvirt.GuestInfo{}
	vm.Metadata.Labels = map[string]string{}
	for i := range 100 {
		vm.Metadata.Labels[fmt.Sprintf("label%02d", i)] = "x"
		guest.Filesystems = append(guest.Filesystems, libvirt.GuestFilesystem{
			MountPoint: fmt.Sprintf("/mnt/%d", i), TotalBytes: new(uint64(2)), UsedBytes: new(uint64(1)),
		})
	}
	s := &scraper{labels: newLabelChoice("*")}
	if l := s.vmLabels(vm); len(l) != maxLabels+len(s.vmLabels(&fleet.VM{})) {
		t.Errorf("%d labels", len(l))
	}
	f := newFamilies(defaultSeries)
	f.addFilesystems(guest, nil)
	for _, m := range []metric{fsCapacity, fsUsed} {
		if n := len(f.all[m.name].Metric); n != maxFilesystems {
			t.Errorf("%d series of %s", n, m.name)
		}
	}
}

func TestVMLabels(t *testing.T) {
	t.Parallel()
	vm := &fleet.VM{Name: "web", Host: "kvm1"}
	vm.Metadata.Labels = map[string]string{"app.kubernetes.io/name": "a", "app_kubernetes_io_name": "b", "tier": "prod"}
	for choice, want := range map[string]map[string]string{
		"*":         {"kubernetes_vmi_label_app_kubernetes_io_name": "a", "kubernetes_vmi_label_tier": "prod"},
		"tier,zone": {"kubernetes_vmi_label_tier": "prod"}, "": {},
	} {
		want = maps.Clone(want)
		want["node"], want["namespace"], want["name"] = "kvm1", "default", "web"
		got := map[string]string{}
		s := &scraper{namespace: "default", labels: newLabelChoice(choice)}
		for _, l := range s.vmLabels(vm) {
			got[l.GetName()] = l.GetValue()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", choice, diff)
		}
	}
}

// TestStatusGroup has every status that a VM can have: what is new without a group would be an error.
func TestStatusGroup(t *testing.T) {
	t.Parallel()
	for printed, want := range map[string]string{
		status.StatusStarting: "starting", status.StatusRunning: "running", status.StatusMigrating: "migrating",
		status.StatusStopped: "non_running", status.StatusStopping: "non_running", status.StatusPaused: "non_running",
		status.StatusFailed: "error", status.StatusUnknown: "error",
	} {
		if got := statusGroup(strings.ToLower(printed)); got != want {
			t.Errorf("%s is in group %s, want %s", printed, got, want)
		}
	}
}

// slowReader takes nothing of its answer until the channel is closed.
type slowReader struct {
	*httptest.ResponseRecorder
	once  sync.Once
	began chan struct{}
	until chan struct{}
}

func (s *slowReader) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.began) })
	<-s.until
	return s.ResponseRecorder.Write(b)
}

// TestFamilies_oneOddSeriesCostsItself: a second series with the same labels, and what a guest says that is no text or
// is endless, would otherwise make Prometheus refuse the answer for the whole fleet.
func TestFamilies_oneOddSeriesCostsItself(t *testing.T) {
	t.Parallel()
	f := newFamilies(defaultSeries)
	for _, node := range []string{"kvm1", "kvm1", "kvm2"} {
		f.add(vmInfo, new(1.0), labels{}.with("node", node, "name", "web"))
	}
	f.add(vmiInfo, new(1.0), labels{}.with("name", "web", "guest_os_name", "De\xffbi\xc3an", "guest_os_version_id",
		strings.Repeat("\u00e4", 10_000)))
	if n := len(f.all[vmInfo.name].Metric); n != 2 || f.duplicates != 1 {
		t.Errorf("%d series, %d duplicates", n, f.duplicates)
	}
	for _, l := range f.all[vmiInfo.name].Metric[0].Label {
		if v := l.GetValue(); len(v) > maxLabelValue || !utf8.ValidString(v) {
			t.Errorf("%s has %d bytes: %q", l.GetName(), len(v), v)
		}
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(f, promhttp.HandlerOpts{}).ServeHTTP(w,
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
}
