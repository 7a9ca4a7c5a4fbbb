package exporter

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/opstest"
)

func startOn(t testing.TB, l *lab.Lab, args []string, hosts ...*lab.Host) *running {
	t.Helper()
	return start(t, opstest.Config(l, hosts...), args...)
}

func domstats(t testing.TB, l *lab.Lab, host, name string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(l.Virsh(t, host, "domstats", name)) {
		param, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			all[param] = n
		}
	}
	return all
}

// callsOf are the calls of a host since the exporter started, but for those that open connections.
func callsOf(all scraped, host string) map[string]float64 {
	calls := map[string]float64{}
	for _, id := range all.series("virtfleet_libvirt_calls_total", fmt.Sprintf("node=%q", host)) {
		_, procedure, _ := strings.Cut(id, `procedure="`)
		calls[strings.TrimSuffix(procedure, `"}`)] = all[id]
	}
	delete(calls, "virConnectOpen")
	delete(calls, "virConnectDomainEventRegisterAny")
	return calls
}

// TestLab_saysWhatVirshSays brackets a scrape with two readings of virsh, and counts what the next one costs.
func TestLab_saysWhatVirshSays(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	name := opstest.VM(t, l, h, "")
	off := lab.Name(t) + "-off"
	l.Define(t, h.Name, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">64</memory>`+
		`<os><type arch="x86_64" machine="q35">hvm</type></os></domain>`, off))
	r := startOn(t, l, nil, h)
	r.scrape() // Connects and reads the definitions.

	before := domstats(t, l, h.Name, name)
	all, _ := r.scrape()
	after := domstats(t, l, h.Name, name)
	vm := []string{
		`name="` + name + `"`, `node="` + h.Name + `"`, `namespace="default"`, `kubernetes_vmi_label_app_name="web"`,
	}
	lan := []string{`interface="lan"`}
	for metric, want := range map[string]struct {
		param  string
		unit   float64
		labels []string
	}{
		"kubevirt_vmi_cpu_usage_seconds_total":                {"cpu.time", 1e-9, nil},
		"kubevirt_vmi_cpu_system_usage_seconds_total":         {"cpu.system", 1e-9, nil},
		"kubevirt_vmi_vcpu_seconds_total":                     {"vcpu.1.time", 1e-9, []string{`id="1"`}},
		"kubevirt_vmi_vcpu_delay_seconds_total":               {"vcpu.0.delay", 1e-9, []string{`id="0"`}},
		"kubevirt_vmi_memory_domain_bytes":                    {"balloon.current", 1024, nil},
		"kubevirt_vmi_storage_read_traffic_bytes_total":       {"block.0.rd.bytes", 1, []string{`drive="root"`}},
		"kubevirt_vmi_storage_iops_read_total":                {"block.0.rd.reqs", 1, []string{`drive="root"`}},
		"kubevirt_vmi_storage_read_times_seconds_total":       {"block.0.rd.times", 1e-9, []string{`drive="root"`}},
		"kubevirt_vmi_network_transmit_bytes_total":           {"net.1.tx.bytes", 1, lan},
		"kubevirt_vmi_network_receive_packets_total":          {"net.1.rx.pkts", 1, lan},
		"kubevirt_vmi_network_transmit_packets_dropped_total": {"net.1.tx.drop", 1, lan},
		"kubevirt_vmi_network_traffic_bytes_total":            {"net.1.rx.bytes", 1, append(lan, `type="rx"`)},
	} {
		low, known := before[want.param]
		value := all.one(t, metric, append(want.labels, vm...)...)
		if !known || value < low*want.unit*(1-1e-12) || value > after[want.param]*want.unit*(1+1e-12) {
			t.Errorf("%s is %v, %s was %v and is %v", metric, value, want.param, low, after[want.param])
		}
	}
	all.one(t, "kubevirt_vmi_info", append(vm, `phase="running"`, `evictable="false"`, `guest_os_arch="x86_64"`)...)
	all.one(t, "kubevirt_vm_info", append(vm, `status="running"`, `status_group="running"`)...)
	all.one(t, "kubevirt_vm_info", `name="`+off+`"`, `status="stopped"`, `status_group="non_running"`)
	if all.one(t, "kubevirt_vmi_non_evictable", vm...) != 1 || len(all.series("kubevirt_vmi_info")) != 1 {
		t.Errorf("got %v", all.series("kubevirt_vmi_info"))
	}

	// What it was told once it doesn't ask again: a scrape costs two calls, whatever is on the host.
	costOf(t, r, h, 2, 1)
}

// TestLab_deadHostsCostTheirOwnSeries kills the daemon of one host, then takes the host off the network, where nothing
// is refused and everything hangs.
func TestLab_deadHostsCostTheirOwnSeries(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	alive, dying := l.StartHost(t), l.StartHost(t)
	stays, lost := opstest.VM(t, l, alive, ""), opstest.VM(t, l, dying, "")
	// Two thirds of it are the hosts': far more than one that is alive needs once it is connected to.
	r := startOn(t, l, []string{"--timeout", "18s"}, alive, dying)
	look := func(what string, up float64) {
		t.Helper()
		began := time.Now()
		all, _ := r.scrape()
		t.Logf("%s: scraped in %v", what, time.Since(began).Round(time.Millisecond))
		all.one(t, "kubevirt_vmi_cpu_usage_seconds_total", `name="`+stays+`"`)
		if all.one(t, "virtfleet_host_up", `node="`+alive.Name+`"`) != 1 ||
			all.one(t, "virtfleet_host_up", `node="`+dying.Name+`"`) != up {
			t.Errorf("%s: got %v", what, all.series("virtfleet_host_up"))
		}
		if n := len(all.series("kubevirt_vmi_cpu_usage_seconds_total", `name="`+lost+`"`)); float64(n) != up {
			t.Errorf("%s: %d series of the VM on %s, which is told to be %v: %s", what, n, dying.Name,
				all.series("kubevirt_vm_info", `name="`+lost+`"`), r.log)
		}
	}
	// A daemon that has just begun takes in its VMs one after another.
	back := func() {
		t.Helper()
		began := time.Now()
		for all, _ := r.scrape(); all.one(t, "virtfleet_host_up", `node="`+dying.Name+`"`) != 1 ||
			len(all.series("kubevirt_vmi_cpu_usage_seconds_total", `name="`+lost+`"`)) == 0; all, _ = r.scrape() {
			if time.Since(began) > 5*time.Minute {
				t.Fatalf("the host never came back: %s", r.log)
			}
		}
	}
	back() // Connects.
	look("all alive", 1)
	restart := l.KillLibvirtd(t, dying)
	look("libvirtd killed", 0)
	restart()
	back()
	look("libvirtd restarted", 1)
	restore := l.Cut(t, dying)
	look("off the network", 0)
	look("still off the network", 0)
	restore()
	back()
	look("back on the network", 1)
	for _, event := range []string{"host does not answer", "host answers again"} {
		if !strings.Contains(r.log.String(), event) {
			t.Errorf("the log doesn't say %q: %s", event, r.log)
		}
	}
}

// TestLab_migration proves that a VM which migrates is counted once all the way, and that its progress shows.
func TestLab_migration(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	// Of their own: it asks all VMs of its hosts again and again, and who else asks them then would have to wait.
	from, to := l.StartHost(t), l.StartHost(t)
	name := opstest.WritingVM(t, l, from)
	l.Virsh(t, from.Name, "migrate-setspeed", name, "2")
	r := startOn(t, l, nil, from, to)
	r.scrape()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	moved := make(chan error, 1)
	began := time.Now()
	go func() { moved <- from.Migrate(ctx, name, to) }()
	seen := false
	vm, source, target := `name="`+name+`"`, `node="`+from.Name+`"`, `node="`+to.Name+`"`
	for done := false; !done; {
		select {
		case err := <-moved:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
		all, _ := r.scrape()
		if n := len(all.series("kubevirt_vmi_info", vm)); n != 1 {
			t.Errorf("%d infos", n)
		}
		if all.series("kubevirt_vmi_migration_data_bytes_total", vm) == nil {
			continue
		}
		all.one(t, "kubevirt_vm_info", vm, `status="migrating"`, source)
		all.one(t, "kubevirt_vmi_cpu_usage_seconds_total", vm, source)
		if all.one(t, "kubevirt_vmi_migration_data_bytes_total", vm, source) == 0 {
			continue // It is being set up.
		}
		if id := all.series("kubevirt_vmi_migrations_in_running_phase"); len(id) != 1 || all[id[0]] < 1 {
			t.Errorf("no migration runs: %v", id)
		}
		// It isn't recorded when virsh began; its job tells, in whole seconds.
		start := all.one(t, "kubevirt_vmi_migration_start_time_seconds", vm, source)
		if start < float64(began.Unix()) || start > float64(time.Now().Unix()) {
			t.Errorf("it began at %v, seen as %v", began, start)
		}
		if !seen {
			// Once is enough.
			seen = true
			l.Virsh(t, from.Name, "migrate-setspeed", name, "8192")
		}
	}
	if !seen {
		t.Error("the migration was never seen")
	}
	all, _ := r.scrape()
	all.one(t, "kubevirt_vmi_info", vm, target, `phase="running"`)
	if at := all.one(t, "kubevirt_vm_running_status_last_transition_timestamp_seconds", vm, target); at <
		float64(began.Unix()) {
		t.Errorf("it runs since %v, and was moved after %v", at, began)
	}
	all.one(t, "kubevirt_vmi_memory_domain_bytes", vm, target)
	if len(all.series("kubevirt_vmi_migration_data_bytes_total", vm)) != 0 ||
		len(all.series("kubevirt_vmi_migration_start_time_seconds", vm)) != 0 {
		t.Error("the migration isn't over")
	}
}

// TestLab_filesystems compares what a guest's agent tells with what the guest itself says.
func TestLab_filesystems(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t) // Whoever else asks an agent while this exporter does has to wait.
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	export := l.NBD(t, name, 16<<20)
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.Run(t, h.Name, "mkfs.ext4", "-q", "-F", image, "16M")
	l.Run(t, h.Name, "qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image,
		"nbd://"+export.Address()+"/"+export.Name)
	opstest.StartVM(t, l, h, export, "")
	vm := `name="` + name + `"`
	r := startOn(t, l, []string{"--guest-interval", "1s"}, h)
	l.AwaitAgent(t, h.Name, name)
	var all scraped
	lab.Await(t, "the guest's system", func() bool {
		all, _ = r.scrape()
		return len(all.series("kubevirt_vmi_info", vm, `guest_os_name="Virtfleet lab guest"`)) == 1
	})
	all.one(t, "kubevirt_vmi_info", vm, `guest_os_version_id="1"`)
	if got := all.series("kubevirt_vmi_filesystem_used_bytes", vm); got != nil {
		t.Errorf("nothing is mounted, and there is %v", got)
	}
	l.Virsh(t, h.Name, "qemu-agent-command", name,
		`{"execute":"guest-exec","arguments":{"path":"/bin/sh",`+
			`"arg":["-c","until mount -t ext4 /dev/vda /mnt; do sleep 1; done"]}}`)
	lab.Await(t, "the filesystem", func() bool {
		all, _ = r.scrape()
		return len(all.series("kubevirt_vmi_filesystem_capacity_bytes", vm)) == 1
	})
	fs := []string{vm, `mount_point="/mnt"`, `file_system_type="ext4"`, `disk_name="vda"`}
	capacity, used := all.one(t, "kubevirt_vmi_filesystem_capacity_bytes", fs...), all.one(t,
		"kubevirt_vmi_filesystem_used_bytes", fs...)
	if capacity < 10<<20 || capacity > 16<<20 || used <= 0 || used >= capacity {
		t.Errorf("%v of %v bytes are used", used, capacity)
	}
}
