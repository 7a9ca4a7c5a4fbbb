package exporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/opstest"
)

// shipped is a file of the monitoring example.
func shipped(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../../examples/monitoring", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// program finds a program of Debian's package "prometheus". Under TF_ACC it has to be there.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("TF_ACC") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return path
}

func TestRules_passPromtool(t *testing.T) {
	t.Parallel()
	promtool := program(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", shipped(t, "rules.yaml")},
		{"check", "config", shipped(t, "prometheus.yaml")},
		{"test", "rules", shipped(t, "rules_test.yaml")},
	} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// server is a Prometheus that scrapes an exporter every four seconds: as long as it may take, so that a busy computer's
// hosts aren't taken for silent ones.
type server struct {
	t   testing.TB
	url string
}

// startPrometheus starts one with those rules until the test ends.
func startPrometheus(t testing.TB, target, rules string) *server {
	t.Helper()
	binary, dir := program(t, "prometheus"), t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 4s, scrape_timeout: 4s, evaluation_interval: 1s}\n"+
		"rule_files: [%q]\nscrape_configs:\n  - job_name: virtfleet\n    static_configs: [{targets: [%q]}]\n",
		rules, strings.TrimPrefix(target, "http://"))
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// No other program is given a port of this address in the moment in which it is free.
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.9.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, binary, "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", address, "--log.level", "warn")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		var killed *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &killed) {
			t.Error(err)
		}
	})
	return &server{t, "http://" + address}
}

// ask asks Prometheus's API. Until it listens there is no answer.
func (s *server) ask(path string, answer any) error {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("%s: %s", path, resp.Status), resp.Body.Close())
	}
	return errors.Join(json.NewDecoder(resp.Body).Decode(answer), resp.Body.Close())
}

// count is how many series a query gives.
func (s *server) count(query string) (int, error) {
	s.t.Helper()
	var answer struct {
		Data struct{ Result []any }
	}
	err := s.ask("/api/v1/query?query="+url.QueryEscape(query), &answer)
	return len(answer.Data.Result), err
}

// variables are put where Grafana would put them.
var variables = strings.NewReplacer("$__rate_interval", "30s", "$node", ".*", "$name", ".*")

// readDashboard reads parts of the shipped dashboard.
func readDashboard(t testing.TB, into any) {
	t.Helper()
	data, err := os.ReadFile(shipped(t, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// panels are the queries of the shipped dashboard, by the titles of their panels.
func panels(t testing.TB) map[string][]string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	readDashboard(t, &dashboard)
	queries := map[string][]string{}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			queries[p.Title] = append(queries[p.Title], variables.Replace(target.Expr))
		}
	}
	return queries
}

// TestLab_prometheus has a real Prometheus scrape the exporter during a migration: every query of the dashboard gives
// data, that of its variables included, and every rule can be evaluated.
func TestLab_prometheus(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	name := opstest.WritingVM(t, l, from)
	// The driver of the balloon tells every second what the guest makes of its memory.
	l.Virsh(t, from.Name, "dommemstat", name, "--period", "1", "--live")
	l.Virsh(t, from.Name, "migrate-setspeed", name, "1")
	r := startOn(t, l, nil, from, to)
	p := startPrometheus(t, r.url, shipped(t, "rules.yaml"))

	ctx, abort := context.WithCancel(t.Context())
	defer abort()
	ended := make(chan error, 1)
	started := false
	open := panels(t)
	if len(open) < 15 {
		t.Fatalf("the dashboard has %d panels", len(open))
	}
	deadline, tick := time.After(8*time.Minute), time.NewTicker(500*time.Millisecond)
	defer tick.Stop()
	for len(open) > 0 {
		for title, queries := range open {
			for len(queries) > 0 {
				if n, err := p.count(queries[0]); err != nil || n == 0 {
					break
				}
				queries = queries[1:]
			}
			if open[title] = queries; len(queries) == 0 {
				delete(open, title)
			}
		}
		// The balloon's driver answers while the guest runs; then it may go.
		if _, waits := open["Used by the guest"]; !waits && !started {
			started = true
			go func() { ended <- from.Migrate(ctx, name, to) }()
		}
		select {
		case <-deadline:
			t.Fatalf("no data for %q", open)
		case <-tick.C:
		}
	}
	l.Virsh(t, from.Name, "domjobabort", name)
	if err := <-ended; err == nil {
		t.Error("the migration wasn't aborted")
	}

	p.checkRules()
	for label, want := range map[string][]string{"node": {from.Name, to.Name}, "name": {name}} {
		if diff := cmp.Diff(want, p.offered(label)); diff != "" {
			t.Errorf("the dashboard offers other values of %s: %s", label, diff)
		}
	}
}

// checkRules proves that Prometheus can evaluate all rules.
func (s *server) checkRules() {
	s.t.Helper()
	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := s.ask("/api/v1/rules", &rules); err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for _, g := range rules.Data.Groups {
		for _, rule := range g.Rules {
			n++
			if rule.Health != "ok" {
				s.t.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
	if n < 17 {
		s.t.Errorf("%d rules were loaded", n)
	}
}

// offered are the values that Grafana offers for a variable of the dashboard, which it asks for as it does here.
func (s *server) offered(variable string) []string {
	s.t.Helper()
	var dashboard struct {
		Templating struct {
			List []struct {
				Name, Type string
				Query      json.RawMessage
			}
		}
	}
	readDashboard(s.t, &dashboard)
	for _, v := range dashboard.Templating.List {
		if v.Name != variable {
			continue
		}
		var query struct{ Query string }
		if err := json.Unmarshal(v.Query, &query); err != nil {
			s.t.Fatal(err)
		}
		parts := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(query.Query)
		if parts == nil {
			s.t.Fatalf("variable %s: %s", variable, query.Query)
		}
		var answer struct{ Data []string }
		match := url.Values{"match[]": {variables.Replace(parts[1])}}
		if err := s.ask("/api/v1/label/"+parts[2]+"/values?"+match.Encode(), &answer); err != nil {
			s.t.Fatal(err)
		}
		return answer.Data
	}
	s.t.Fatalf("the dashboard has no variable %s", variable)
	return nil
}

// until waits until a query gives as many series as wanted.
func (s *server) until(query string, want int) {
	s.t.Helper()
	deadline, tick := time.After(8*time.Minute), time.NewTicker(500*time.Millisecond)
	defer tick.Stop()
	for {
		n, err := s.count(query)
		if err == nil && n == want {
			return
		}
		select {
		case <-deadline:
			s.t.Fatalf("%s gives %d series, %v; want %d", query, n, err, want)
		case <-tick.C:
		}
	}
}
