package exporter

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/opstest"
)

// hastyRules are the shipped rules, but that alerts which wait for minutes wait for seconds.
func hastyRules(t testing.TB) (path string) {
	t.Helper()
	data, err := os.ReadFile(shipped(t, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "rules.yaml")
	hasty := regexp.MustCompile(`(?m)^( +for: \d+)m$`).ReplaceAll(data, []byte("${1}s"))
	if err := os.WriteFile(path, hasty, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLab_prometheusDuringADrain has a real Prometheus watch a host that is drained: an alert fires for the VM
// that can't leave and ends with it, the other is seen on its way and never counted twice, and what became of it shows;
// then the empty host dies, which is an alert of its own.
func TestLab_prometheusDuringADrain(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	name, bound := opstest.WritingVM(t, l, from), boundVM(t, l, from)
	f := openFleet(t, from, to)
	slowly := evacuation.Policy{Identity: policy.Identity{ID: "1", Name: "slowly"}, Strategy: evacuation.LiveMigrate}
	slowly.Selector.Labels = map[string]string{"app.name": "web"}
	slowly.Options = migration.Options{
		Bandwidth: new(uint64(1 << 20)), CompletionTimeoutPerGiB: new(time.Hour), ProgressTimeout: new(time.Hour),
		AllowNetworkChange: new(true),
	}
	if _, err := f.EvictionPolicies().Put(t.Context(), slowly); err != nil {
		t.Fatal(err)
	}
	r := startOn(t, l, nil, from, to)
	p := startPrometheus(t, r.url, hastyRules(t))

	p.until(fmt.Sprintf(`ALERTS{alertname="VMCannotBeEvicted",alertstate="firing",name=%q}`, bound), 1)
	p.until(fmt.Sprintf(`ALERTS{alertname="VMCannotBeEvicted",name!=%q}`, bound), 0)
	l.Virsh(t, from.Name, "destroy", bound)
	p.until(`ALERTS{alertname="VMCannotBeEvicted"}`, 0)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	drained := make(chan error, 1)
	go func() {
		_, err := f.Drain(ctx, fleet.Drain{Host: from.Name, ID: "m", Why: "a test"})
		drained <- err
	}()
	vm := fmt.Sprintf(`{name=%q,node=%q}`, name, from.Name)
	p.until(fmt.Sprintf(`kubevirt_vm_info{name=%q,node=%q,status="migrating"}`, name, from.Name), 1)
	p.until("kubevirt_vmi_migrations_in_running_phase == 1", 1)
	p.until("kubevirt_vmi_migration_data_remaining_bytes"+vm+" > 0", 1)
	p.until("kubevirt_vmi_migration_start_time_seconds"+vm, 1)
	l.Virsh(t, from.Name, "migrate-setspeed", name, "8192")
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	p.until(fmt.Sprintf(`kubevirt_vmi_info{name=%q,node=%q,phase="running"}`, name, to.Name), 1)
	// The definitions are read once a minute.
	p.until(fmt.Sprintf(`kubevirt_vmi_migration_succeeded{vmi=%q}`, name), 1)
	p.until(fmt.Sprintf(`kubevirt_vmi_migration_end_time_seconds{name=%q,node=%q,status="succeeded"}`, name, to.Name), 1)
	p.until(fmt.Sprintf(`max_over_time(count(kubevirt_vmi_info{name=%q})[30m:1s]) == 1`, name), 1)
	p.checkRules()

	l.KillLibvirtd(t, from)
	p.until(fmt.Sprintf(`ALERTS{alertname="VirtfleetHostDown",alertstate="firing",node=%q}`, from.Name), 1)
	p.until(fmt.Sprintf(`ALERTS{alertname="VirtfleetHostDown",node!=%q}`, from.Name), 0)
	p.until(fmt.Sprintf(`kubevirt_vmi_info{name=%q,node=%q}`, name, to.Name), 1)
}
