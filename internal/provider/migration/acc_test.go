package migration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const (
	address = "virtfleet_migration.this"
	machine = "virtfleet_virtual_machine.this"
)

// provider is the block with the addresses at which the hosts take migrations.
func provider(l *lab.Lab, settings string) string {
	return providerOn(l, settings, l.Host("kvm1"), l.Host("kvm2"))
}

// providerOn is the provider block for other hosts. What begin applies is placed on the first of them.
func providerOn(l *lab.Lab, settings string, hosts ...*lab.Host) string {
	block := acctest.Block{Lab: l, Settings: settings}
	for i, h := range hosts {
		own := fmt.Sprintf("migration_address = %q\n", h.Address)
		if i > 0 {
			own += schedulable
		}
		block.Hosts = append(block.Hosts, acctest.Host{Of: h, Settings: own})
	}
	return block.String()
}

const schedulable = "schedulable = true"

// begin applies a configuration of providerOn as long as nothing is placed but on the first host.
func begin(t *testing.T, tf *acctest.CLI, config string) {
	t.Helper()
	apply(t, tf, strings.ReplaceAll(config, schedulable, "schedulable = false"))
}

// light is a VM that costs nothing; more are further attributes.
func light(name, more string) string {
	return fmt.Sprintf(`resource "virtfleet_virtual_machine" "this" {
  name      = %q
  type      = "qemu"
  memory    = { size = "64Mi" }
  termination_grace_period = "0s"
  %s
}
`, name, more)
}

// writing is a VM whose guest writes to its memory all the time. It is there when the guest has booted:
// before that there is so little in its memory that it is moved before anything can be done about it.
func writing(l *lab.Lab, name string) string {
	return strings.Replace(light(name, fmt.Sprintf(`kernel = { path = %q, initrd = %q, cmdline = "%s dirty=16" }
  guest_agent = { enabled = true }
  wait_for    = { guest_agent = true }`, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline)), "64Mi", "128Mi", 1)
}

// migration is a migration of the VM.
func migration(attributes string) string {
	return fmt.Sprintf("resource \"virtfleet_migration\" \"this\" {\n  virtual_machine_id = %s.id\n  %s\n}\n", machine,
		attributes)
}

// start prepares Terraform for a VM of that name.
func start(t *testing.T, l *lab.Lab, name string) *acctest.CLI {
	t.Helper()
	l.RemoveDomain(t, name)
	return acctest.NewCLI(t)
}

// apply applies a configuration, after which there is nothing to do.
func apply(t *testing.T, tf *acctest.CLI, config string) string {
	t.Helper()
	tf.Config(t, config)
	out := tf.Run(t, "apply")
	if left, empty := tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", left)
	}
	return out
}

// runsOn fails the test unless the VM runs on that host, and the other has nothing of it.
func runsOn(t *testing.T, l *lab.Lab, name, host string) {
	t.Helper()
	runsAmong(t, l, name, host, "kvm1", "kvm2")
}

// runsAmong fails the test unless the VM runs on that host, and the others have nothing of it.
func runsAmong(t *testing.T, l *lab.Lab, name, host string, hosts ...string) {
	t.Helper()
	for _, h := range hosts {
		want := ""
		if h == host {
			want = "running"
		}
		if state := l.State(t, h, name); state != want {
			t.Errorf("on %s it is %q, want %q", h, state, want)
		}
	}
}

// recorded returns what the state knows of the migration.
func recorded(t *testing.T, tf *acctest.CLI) (attributes, state map[string]any, tainted bool) {
	t.Helper()
	attributes, tainted = tf.State(t, address)
	state, _ = attributes["migration_state"].(map[string]any)
	return attributes, state, tainted
}

// said matches texts in this order.
func said(out string, texts ...string) bool {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = regexp.QuoteMeta(text)
	}
	return regexp.MustCompile(strings.Join(quoted, `.*`)).MatchString(out)
}

// TestAccMigration_moves: a migration moves the VM once, by name or to the best host, again when its triggers
// change, and tells how it went for good.
func TestAccMigration_moves(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := start(t, l, name)
	config := func(attributes string) string { return provider(l, "") + light(name, "") + migration(attributes) }

	begin(t, tf, provider(l, "")+light(name, ""))
	tf.Config(t, config(""))
	if out := tf.Run(t, "plan"); !said(out, "Target is chosen", `on host "kvm1"`, `go to host "kvm2"`) {
		t.Errorf("plan: %s", out)
	}
	apply(t, tf, config(""))
	runsOn(t, l, name, "kvm2")
	first, state, _ := recorded(t, tf)
	acctest.CompareValues(t, first, map[string]any{"phase": "Succeeded"})
	acctest.CompareValues(t, state, map[string]any{
		"source_host": "kvm1", "target_host": "kvm2", "mode": "PreCopy", "method": "LiveMigration",
		"transport": "direct", "completed": true, "failed": false, "failure_reason": nil,
		"abort_requested": false, "abort_status": nil, "recovered": false,
	})
	if state["statistics"] == nil || state["start_time"] == nil || state["end_time"] == nil {
		t.Errorf("state %v", state)
	}
	id, _ := first["id"].(string)
	if text := l.Virsh(t, "kvm2", "metadata", name, "urn:virtfleet:1"); id == "" || !strings.Contains(text, id) {
		t.Errorf("id %q isn't in %s", id, text)
	}

	// What counts for the next one moves nothing.
	tf.Config(t, config(`migration_options = { bandwidth = "500Mi" }`))
	if change := tf.Plan(t)[address]; change.Actions != "update" || change.After["phase"] != "Succeeded" {
		t.Errorf("%+v", change)
	}
	apply(t, tf, config(`migration_options = { bandwidth = "500Mi" }`))

	// Another target is another migration, and so are other triggers: there already, nothing is moved.
	tf.Config(t, config(`target_host = "kvm1"`))
	if change := tf.Plan(t)[address]; change.Actions != "delete create" {
		t.Errorf("%+v", change)
	}
	apply(t, tf, config(`target_host = "kvm1"`))
	runsOn(t, l, name, "kvm1")
	out := apply(t, tf, config(`target_host = "kvm1"
		triggers = { change = "CHG-1234" }`))
	if !said(out, "on the target already") {
		t.Errorf("apply: %s", out)
	}
	second, state, _ := recorded(t, tf)
	acctest.CompareValues(t, state, map[string]any{
		"source_host": "kvm1", "target_host": "kvm1", "method": nil, "statistics": nil,
	})
	if second["id"] == id {
		t.Errorf("another migration has the same id %s", id)
	}

	// Without the migration the VM stays where it is, and the same migration again is a new one, whatever way it takes.
	apply(t, tf, provider(l, "")+light(name, ""))
	runsOn(t, l, name, "kvm1")
	apply(t, tf, config(`migration_options = { transport = "ssh_relay", compression = "xbzrle" }`))
	runsOn(t, l, name, "kvm2")
	if job := l.Virsh(t, "kvm2", "domjobinfo", name, "--completed"); !strings.Contains(job, "Compression cache:") {
		t.Errorf("it wasn't compressed: %s", job)
	}
	third, state, _ := recorded(t, tf)
	acctest.CompareValues(t, state, map[string]any{"transport": "ssh_relay"})
	if third["id"] != id {
		t.Errorf("id of the same migration: %v, want %s", third["id"], id)
	}
	tf.Run(t, "destroy")
	runsOn(t, l, name, "")
}

// TestAccMigration_adopted: a migration of which Terraform knows nothing, because it was killed before it could write
// the state, is found in the VM's metadata. It isn't carried out again, wherever the VM is by now.
func TestAccMigration_adopted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := start(t, l, name)
	config := provider(l, "") + light(name, "") + migration(`target_host = "kvm2"`)
	begin(t, tf, provider(l, "")+light(name, ""))
	file := filepath.Join(tf.Dir, "terraform.tfstate")
	killed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, tf, config)
	before, state, _ := recorded(t, tf)
	if err := os.WriteFile(file, killed, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "virsh", "-c", l.Host("kvm2").SocketURI(), "migrate", "--live", "--persistent",
		"--undefinesource", name, l.Host("kvm1").SocketURI()).CombinedOutput()
	if err != nil {
		t.Fatalf("moving it back by hand: %v\n%s", err, out)
	}

	if out := apply(t, tf, config); !said(out, "was started before", `from host "kvm1" to host "kvm2"`, "not run again") {
		t.Errorf("apply: %s", out)
	}
	runsOn(t, l, name, "kvm1")
	after, adopted, _ := recorded(t, tf)
	acctest.CompareValues(t, after, map[string]any{"id": before["id"], "phase": "Succeeded"})
	acctest.CompareValues(t, adopted, state)

	// Once it was destroyed, it is a new one.
	tf.Run(t, "destroy", "-target="+address)
	apply(t, tf, config)
	runsOn(t, l, name, "kvm2")
	tf.Run(t, "destroy")
}

// TestAccMigration_outlivesItsVM: of a VM that isn't managed and is gone, the state still tells how its migration went.
func TestAccMigration_outlivesItsVM(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := start(t, l, name)
	l.Define(t, "kvm1", "<domain type='qemu'><name>"+name+"</name><memory unit='MiB'>64</memory>"+
		"<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>")
	l.Virsh(t, "kvm1", "start", name)
	id := strings.TrimSpace(l.Virsh(t, "kvm1", "domuuid", name))
	begin(t, tf, provider(l, "")+fmt.Sprintf(
		"resource \"virtfleet_migration\" \"this\" {\n  virtual_machine_id = %q\n  target_host = \"kvm2\"\n}\n", id))
	runsOn(t, l, name, "kvm2")

	l.Virsh(t, "kvm2", "destroy", name)
	l.Virsh(t, "kvm2", "undefine", name)
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the VM is gone:\n%s", out)
	}
	attributes, state, _ := recorded(t, tf)
	acctest.CompareValues(t, attributes, map[string]any{"phase": "Succeeded"})
	acctest.CompareValues(t, state, map[string]any{"target_host": "kvm2"})
	tf.Run(t, "destroy")
}

// TestAccMigration_refused: what blocks a migration fails the plan, all of it; a pin is a warning there, and stops the
// apply.
func TestAccMigration_refused(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := start(t, l, name)
	image := l.Image(t, "kvm1", name+".qcow2", "qcow2", 1<<20)
	blocked := provider(l, "") + light(name, fmt.Sprintf("disks = { data = { volume = %q } }\n"+
		"interfaces = { lan = { network = \"default\" } }", image))
	begin(t, tf, blocked)
	for _, target := range []string{"", `target_host = "kvm2"`} {
		tf.Config(t, blocked+migration(target))
		out := tf.Fail(t, "plan")
		for _, said := range []string{
			"DisksNotLiveMigratable", image, "InterfaceNotLiveMigratable", "allow_network_change",
		} {
			if !strings.Contains(out, said) {
				t.Errorf("%q: %q isn't in %s", target, said, out)
			}
		}
	}
	tf.Config(t, blocked+migration(`target_host = "nowhere"`))
	if out := tf.Fail(t, "plan"); !said(out, "target_host", `"nowhere" is not among the configured hosts`) {
		t.Errorf("plan: %s", out)
	}
	apply(t, tf, blocked)
	tf.Run(t, "destroy")

	pinned := provider(l, "") + light(name, `host = "kvm1"`)
	apply(t, tf, pinned)
	tf.Config(t, pinned+migration(`target_host = "kvm2"`))
	if out := tf.Run(t, "plan"); !said(out, "HostPinned", `pins it to host "kvm1"`) {
		t.Errorf("plan: %s", out)
	}
	if out := tf.Fail(t, "apply"); !said(out, "Unable to complete migration", "HostPinned") {
		t.Errorf("apply: %s", out)
	}
	runsOn(t, l, name, "kvm1")
	_, state, tainted := recorded(t, tf)
	acctest.CompareValues(t, state, map[string]any{"failed": true, "failure_plane": "control", "source_host": "kvm1"})
	if !tainted {
		t.Error("a migration that failed isn't tried again")
	}
	// The same plan that lifts the pin carries it out.
	apply(t, tf, provider(l, "")+light(name, "")+migration(`target_host = "kvm2"`))
	runsOn(t, l, name, "kvm2")
	tf.Run(t, "destroy")
}

// TestAccMigration_copiesDisks: disks that only the source has are taken along where that is wanted, which the plan
// says, and how much that was is known afterwards. What is copied stays at the source.
func TestAccMigration_copiesDisks(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := start(t, l, name)
	image := l.Image(t, "kvm1", name+".qcow2", "qcow2", 8<<20)
	t.Cleanup(func() {
		if err := os.Remove(l.Host("kvm2").Path(image)); err != nil {
			t.Error(err)
		}
	})
	config := provider(l, "") + light(name, fmt.Sprintf("disks = { data = { volume = %q } }", image))
	begin(t, tf, config)
	config += migration(`migration_options = { copy_storage = "full" }`)
	tf.Config(t, config+fmt.Sprintf(`data "virtfleet_migration_candidates" "this" {
  virtual_machine_id = %s.id
  migration_options  = { copy_storage = "full" }
}
output "how" { value = data.virtfleet_migration_candidates.this.hosts["kvm2"].method }
`, machine))
	out := tf.Run(t, "plan")
	if !said(out, "how", "BlockMigration") ||
		!said(out, "Disks of the virtual machine are copied: BlockMigration", image, "they are kept") {
		t.Errorf("plan: %s", out)
	}
	apply(t, tf, config)
	runsOn(t, l, name, "kvm2")
	_, state, _ := recorded(t, tf)
	acctest.CompareValues(t, state, map[string]any{"method": "BlockMigration", "failed": false})
	statistics, _ := state["statistics"].(map[string]any)
	acctest.CompareValues(t, statistics, map[string]any{"disk_total_bytes": float64(8 << 20), "disk_remaining_bytes": 0})
	for _, host := range []string{"kvm1", "kvm2"} {
		if _, err := os.Stat(l.Host(host).Path(image)); err != nil {
			t.Error(err)
		}
	}
	if text := l.Virsh(t, "kvm2", "metadata", name, "urn:virtfleet:1"); strings.Contains(text, "<copies") {
		t.Errorf("still called unfinished: %s", text)
	}
	tf.Run(t, "destroy")
}

// TestAccMigration_copiesTopmost: of a disk that is based on an image which the target has too, its own data is
// copied. The plan says so, and fails as long as the target has no such image.
func TestAccMigration_copiesTopmost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := start(t, l, name)
	base := l.Image(t, "kvm1", name+"-base.raw", "raw", 8<<20)
	image := l.Image(t, "kvm1", name+".qcow2", "qcow2", 8<<20)
	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", "raw", image)
	l.Run(t, "kvm1", "qemu-io", "-f", "qcow2", "-c", "write -q -P 7 1M 1M", image)
	t.Cleanup(func() {
		if err := os.Remove(l.Host("kvm2").Path(image)); err != nil {
			t.Error(err)
		}
	})
	config := provider(l, "") + light(name, fmt.Sprintf("disks = { data = { volume = %q } }", image))
	begin(t, tf, config)
	config += migration(`migration_options = { copy_storage = "incremental", keep_source_disks = false }`)
	tf.Config(t, config)
	if out := tf.Fail(t, "plan"); !said(out, "DisksNotLiveMigratable", base) {
		t.Errorf("without the base: %s", out)
	}
	l.Image(t, "kvm2", name+"-base.raw", "raw", 8<<20)
	if out := tf.Run(t, "plan"); !said(out, "Disks of the virtual machine are copied: BlockMigration",
		"each into a new image at the same path on the same backing files:", "data: "+image,
		"its own data on top of "+base, `On host "kvm1" they are removed as soon as the VM runs there`) {
		t.Errorf("plan: %s", out)
	}
	apply(t, tf, config)
	runsOn(t, l, name, "kvm2")
	_, state, _ := recorded(t, tf)
	acctest.CompareValues(t, state, map[string]any{"method": "BlockMigration", "failed": false})
	if info := l.Run(t, "kvm2", "qemu-img", "info", "-U", image); !strings.Contains(info, "backing file: "+base) {
		t.Errorf("copied as %s", info)
	}
	l.Run(t, "kvm2", "qemu-io", "-U", "-r", "-f", "qcow2", "-c", "read -q -P 7 1M 1M", "-c", "read -q -P 0 0 1M", image)
	if _, err := os.Stat(l.Host("kvm1").Path(image)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was copied is at the source still: %v", err)
	}
	tf.Run(t, "destroy")
}

// TestAccMigration_fails: a migration that can't converge, is interrupted or killed leaves the VM where it was;
// the state tells why, and the next apply tries again.
func TestAccMigration_fails(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := start(t, l, name)
	slow := provider(l, `migration_options = { bandwidth = "2Mi" }`) + writing(l, name)
	begin(t, tf, slow)

	tf.Config(t, slow+migration(`migration_options = { completion_timeout_per_gib = "2s" }`))
	if out := tf.Fail(t, "apply"); !said(out, "took too long", `is on host "kvm1" (Running)`, "allow_post_copy") {
		t.Errorf("apply: %s", out)
	}
	runsOn(t, l, name, "kvm1")
	attributes, state, tainted := recorded(t, tf)
	acctest.CompareValues(t, attributes, map[string]any{"phase": "Failed"})
	acctest.CompareValues(t, state, map[string]any{
		"source_host": "kvm1", "target_host": "kvm2", "failed": true, "completed": true, "failure_plane": "data",
		"abort_requested": true, "abort_status": "Succeeded",
	})
	statistics, _ := state["statistics"].(map[string]any)
	for _, name := range []string{
		"elapsed_seconds", "data_total_bytes", "data_processed_bytes", "data_remaining_bytes", "memory_bytes_per_second",
		"iterations",
	} {
		if n, _ := statistics[name].(float64); n <= 0 {
			t.Errorf("%s is %v: %v", name, statistics[name], statistics)
		}
	}
	if !tainted || !said(fmt.Sprint(state["failure_reason"]), "took too long") {
		t.Errorf("tainted: %v, %v", tainted, state)
	}
	if out, empty := tf.Empty(t); empty || !said(out, "1 to add, 0 to change, 1 to destroy") {
		t.Errorf("plan: %s", out)
	}

	tf.Config(t, slow+migration(""))
	for what, end := range map[string]func(*acctest.Running) error{
		"interrupted": (*acctest.Running).Interrupt, "killed": (*acctest.Running).Kill,
	} {
		running := tf.Start(t, "apply")
		running.AwaitCopying(t, l, "kvm1", name)
		began := time.Now()
		if err := end(running); err != nil {
			t.Fatal(err)
		}
		out, err := running.Wait()
		if err == nil || time.Since(began) > 5*time.Minute {
			t.Errorf("%s: ended after %v with %v:\n%s", what, time.Since(began), err, out)
		}
		if what == "interrupted" {
			_, state, tainted := recorded(t, tf)
			acctest.CompareValues(t, state, map[string]any{
				"failed": true, "abort_status": "Succeeded", "failure_reason": "it was aborted",
			})
			if !tainted {
				t.Error("a migration that was interrupted isn't tried again")
			}
		}
		// The source notices on its own that its target is gone: until then it still has the job of this migration.
		lab.Await(t, "the VM to be alone", func() bool {
			_, gone := l.TryVirsh(t, "kvm2", "domstate", name)
			job, err := l.TryVirsh(t, "kvm1", "domjobinfo", name)
			return gone != nil && err == nil && strings.Contains(job, "None")
		})
		runsOn(t, l, name, "kvm1")
		if what == "killed" {
			// The state has nothing of it: Terraform was killed before it could write that.
			if out := tf.Run(t, "plan"); !said(out, "was started before", "is run again", `on host "kvm1"`) ||
				said(out, "not run again") {
				t.Errorf("a migration that the next apply repeats: %s", out)
			}
		}
	}

	apply(t, tf, provider(l, "")+writing(l, name)+migration(""))
	runsOn(t, l, name, "kvm2")
	_, state, _ = recorded(t, tf)
	acctest.CompareValues(t, state, map[string]any{"source_host": "kvm1", "target_host": "kvm2", "failed": false})
	tf.Run(t, "destroy")
}

// TestAccMigration_rolling: a whole set moves in one apply, and never more at a time than the limits say.
func TestAccMigration_rolling(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := acctest.NewCLI(t)
	from, to := l.StartHost(t), l.StartHost(t) // What other tests move would count.
	const count = 10
	for i := range count {
		l.RemoveDomain(t, fmt.Sprintf("%s-%d", name, i))
	}
	machines := providerOn(l, `migration_limits = { outbound_per_host = 5, inbound_per_host = 2 }
		migration_options = { bandwidth = "16Mi" }`, from, to) + strings.NewReplacer(
		`name      = ""`, fmt.Sprintf(`name = "%s-${count.index}"`, name)).
		Replace(light("", fmt.Sprintf("count = %d", count)))
	begin(t, tf, machines)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	most, seen := 0, 0
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			// What arrives is paused until it is there.
			out, err := exec.CommandContext(ctx, "virsh", "-c", to.SocketURI(), "list", "--state-paused",
				"--name").Output()
			if n := strings.Count(string(out), name); err == nil && n > 0 {
				most, seen = max(most, n), seen+1
			}
		}
	})
	apply(t, tf, machines+fmt.Sprintf(`resource "virtfleet_migration" "all" {
  count              = length(virtfleet_virtual_machine.this)
  virtual_machine_id = virtfleet_virtual_machine.this[count.index].id
  target_host        = %q
}
`, to.Name))
	stop()
	watching.Wait()
	if most > 2 || seen == 0 {
		t.Errorf("%d arrived at a time in %d looks, want 2 at most", most, seen)
	}
	for i := range count {
		runsAmong(t, l, fmt.Sprintf("%s-%d", name, i), to.Name, from.Name, to.Name)
	}
	tf.Run(t, "destroy")
}

// TestAccMigration_tls: what TLS lacks is told, and the VM stays as it is; with certificates it goes.
func TestAccMigration_tls(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := start(t, l, name)
	from, to := l.StartHost(t), l.StartHost(t)
	machines := providerOn(l, "", from, to) + light(name, "")
	begin(t, tf, machines)
	config := machines + migration(`migration_options = { transport = "tls" }`)
	tf.Config(t, config)
	out := tf.Fail(t, "apply")
	if !said(out, "the VM is on host "+strconv.Quote(from.Name), "server-cert.pem", "ssh_relay") {
		t.Errorf("without certificates: %s", out)
	}
	runsAmong(t, l, name, from.Name, from.Name, to.Name)
	a := lab.NewAuthority(t)
	a.Equip(t, l, from, from.Address)
	a.Equip(t, l, to, to.Address)
	apply(t, tf, config)
	runsAmong(t, l, name, to.Name, from.Name, to.Name)
	_, state, _ := recorded(t, tf)
	acctest.CompareValues(t, state, map[string]any{
		"transport": "tls", "mode": "PreCopy", "completed": true, "failed": false,
	})
	tf.Run(t, "destroy")
	runsAmong(t, l, name, "", from.Name, to.Name)
}
