package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// torn is a VM that is moved between two hosts of its own, slowly and in post-copy.
type torn struct {
	t        *testing.T
	l        *lab.Lab
	tf       *acctest.CLI
	from, to *lab.Host
	name     string
	boots    *boots
	// disk is the VM's.
	disk hcl
}

func newTorn(t *testing.T) *torn {
	t.Helper()
	l := lab.Open(t)
	b := &torn{t: t, l: l, tf: acctest.NewCLI(t), from: l.StartHost(t), to: l.StartHost(t), name: lab.Name(t)}
	b.boots, b.disk = &boots{l: l, name: b.name, disk: true}, diskOnBothHosts(t, l, b.name)
	b.l.RemoveDomain(t, b.name)
	b.config(b.from, postCopySoon)
	b.tf.Run(t, "apply")
	b.sameBoot(b.from)
	return b
}

// sameBoot expects that the guest on a host was never restarted, and reads from its disk what it wrote.
func (b *torn) sameBoot(on *lab.Host) {
	b.t.Helper()
	if err := b.boots.same(b.t, on.Name)(nil); err != nil {
		b.t.Error(err)
	}
}

// postCopySoon are options with which the guest runs on the target soon, and lacks most of its memory there.
const postCopySoon = `allow_post_copy = true, completion_timeout_per_gib = "2s", recovery_timeout = "30s"`

// tornPassword is the password of the VM's screen.
const tornPassword = "secret12"

// config pins the VM to a host.
func (b *torn) config(on *lab.Host, options string) {
	b.t.Helper()
	settings := fmt.Sprintf(`migration_options = { bandwidth = "2Mi", %s }`, options)
	vm := vmWithKernelWords(b.l, b.name, "dirty=32").with(b.disk)
	b.tf.Config(b.t, providerBlock(b.l, settings, b.from, b.to)+vm.with(hcl{
		"host": quote(on.Name), "termination_grace_period": quote("0s"), "guest_agent": `{ enabled = true }`,
		"wait_for": `{ guest_agent = true, timeout = "5m" }`,
		// Whatever becomes of a move, the definition keeps its password.
		"graphics_access": fmt.Sprintf(`{ password_wo = %q, password_wo_version = "1" }`, tornPassword),
	}).String())
}

// state is what a host says of the VM, with the reason.
func (b *torn) state(on *lab.Host) string {
	b.t.Helper()
	out, err := b.l.TryVirsh(b.t, on.Name, "domstate", "--reason", b.name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

func (b *torn) await(on *lab.Host, state string) {
	b.t.Helper()
	lab.Await(b.t, state+" on "+on.Name, func() bool { return b.state(on) == state })
}

// breakPostCopy kills the apply that moves the VM once its guest runs on the target, and breaks the connection over
// which the rest of its memory comes.
func (b *torn) breakPostCopy() {
	b.t.Helper()
	b.config(b.to, postCopySoon)
	// Before it begins: it switches two seconds later, and without a limit all memory has come before the test holds
	// it.
	b.l.Virsh(b.t, b.from.Name, "migrate-setspeed", b.name, "2", "--postcopy")
	apply := b.tf.Start(b.t, "apply")
	apply.AwaitCopying(b.t, b.l, b.from.Name, b.name)
	release := b.l.HoldPostCopy(b.t, b.from, b.to, b.name)
	if err := apply.Kill(); err != nil {
		b.t.Fatal(err)
	}
	if out, err := apply.Wait(); err == nil {
		b.t.Fatalf("the apply continued:\n%s", out)
	}
	b.l.CutMigration(b.t, b.from, b.to)
	release()
	b.await(b.from, "paused (post-copy failed)")
}

// TestAccVirtualMachine_moveBroken: the provider is killed while the hosts lose each other, and no run sees how the
// migration ends. Where the guest is paused at the source, the apply resumes it. In post-copy the plan warns, and the
// apply resumes the migration: the guest continues, with all of its memory. If its part on the target is gone, it is
// lost: what is left is reported and kept until the user gives it up. Then the VM is off, once, and started again.
func TestAccVirtualMachine_moveBroken(t *testing.T) {
	t.Parallel()
	b := newTorn(t)
	b.isStranded()
	b.isResumed()
	b.from, b.to = b.to, b.from
	b.isLost()
	destroyAndCheck(t, b.l, b.tf, b.name)
}

// isStranded has the source lose its connection while the last memory is copied, and the provider killed before it
// notices. The guest is paused then, and libvirt resumes it on neither host. Plans warn, and the apply resumes it.
func (b *torn) isStranded() {
	t := b.t
	t.Helper()
	const stranded = "paused (migrating)"
	b.config(b.to, "")
	apply := b.tf.Start(t, "apply")
	apply.AwaitCopying(t, b.l, b.from.Name, b.name)
	if err := apply.Freeze(); err != nil {
		t.Fatal(err)
	}
	start := b.l.StopSSH(t, b.from)
	b.l.Virsh(t, b.from.Name, "migrate-setspeed", b.name, "8192")
	lab.Await(t, "all memory to be there, and the guest stopped", func() bool {
		job, err := b.l.TryVirsh(t, b.from.Name, "domjobinfo", b.name)
		return err == nil && strings.Contains(job, "None") && b.state(b.from) == stranded
	})
	if err := apply.Kill(); err != nil {
		t.Fatal(err)
	}
	if out, err := apply.Wait(); err == nil {
		t.Fatalf("killed, it succeeded:\n%s", out)
	}
	lab.Await(t, "the target to drop what it got", func() bool { return b.state(b.to) == "" })
	start()

	b.config(b.from, "")
	if plan := b.tf.Run(t, "plan"); !inOrder("status_reason", "MigrationInterrupted").MatchString(plan) {
		t.Errorf("plan: %s", plan)
	}
	if now := b.state(b.from); now != stranded {
		t.Errorf("planning made it %s", now)
	}
	b.tf.Run(t, "apply")
	if from, to := b.state(b.from), b.state(b.to); !strings.HasPrefix(from, "running") || to != "" {
		t.Errorf("at the source it is %q, on the target %q", from, to)
	}
	b.sameBoot(b.from)
}

// isResumed expects that an apply resumes what broke, as the plan says, with what it began with: other options are set
// meanwhile, which these hosts don't support together with post-copy.
func (b *torn) isResumed() {
	t := b.t
	t.Helper()
	b.breakPostCopy()
	b.await(b.to, "running (post-copy failed)")
	b.config(b.to, `parallel_connections = 2, recovery_timeout = "30s", on_irrecoverable = "destroy"`)

	if out := b.tf.Run(t, "plan"); !inOrder("will be updated in-place", "Broken migration is resumed").MatchString(out) ||
		strings.Contains(out, "virsh destroy") {
		t.Errorf("plan: %s", out)
	}
	if from, to := b.state(b.from), b.state(b.to); from != "paused (post-copy failed)" ||
		to != "running (post-copy failed)" {
		t.Errorf("planning made it %q at the source and %q on the target", from, to)
	}
	b.tf.Run(t, "apply")
	if from, to := b.state(b.from), b.state(b.to); from != "" || !strings.HasPrefix(to, "running (") ||
		strings.Contains(to, "post-copy") {
		t.Errorf("at the source it is %q, on the target %q", from, to)
	}
	b.sameBoot(b.to)
	records := b.l.Virsh(t, b.to.Name, "metadata", b.name, "urn:virtfleet:1")
	if !inOrder(`phase="Succeeded"`, `mode="PostCopy"`, `recovered="true"`).MatchString(records) {
		t.Errorf("records: %s", records)
	}
	noChanges(t, b.tf)
}

// isLost expects that a guest whose part on the target is gone is destroyed only by a user who says so.
func (b *torn) isLost() {
	t := b.t
	t.Helper()
	b.breakPostCopy()
	b.l.Run(t, b.to.Name, "sh", "-c", "kill -KILL $(cat /run/libvirt/qemu/"+b.name+".pid)")
	lab.Await(t, "the process to be gone", func() bool { return !strings.Contains(b.state(b.to), "post-copy") })
	before := b.state(b.from)

	if out := b.tf.Fail(t, "apply"); !inOrder("could not be resumed", "its target is gone", "on_irrecoverable").
		MatchString(out) {
		t.Errorf("apply: %s", out)
	}
	if now := b.state(b.from); now != before {
		t.Errorf("what was left is %q, it was %q", now, before)
	}

	b.config(b.to, postCopySoon+`, on_irrecoverable = "destroy"`)
	unresumable := inOrder("will be updated in-place", "Broken migration can't be resumed:")
	if out := b.tf.Run(t, "plan"); !unresumable.MatchString(out) {
		t.Errorf("plan: %s", out)
	}
	if out := b.tf.Fail(t, "apply"); !inOrder("was destroyed, as on_irrecoverable says", "Apply again").MatchString(out) {
		t.Errorf("apply: %s", out)
	}
	if from, to := b.state(b.from), b.state(b.to); from != "" || !strings.HasPrefix(to, "shut off") {
		t.Errorf("at the source it is %q, on the target %q", from, to)
	}
	if xml := b.l.Virsh(t, b.to.Name, "dumpxml", "--inactive", "--security-info", b.name); !strings.Contains(xml,
		"passwd='"+tornPassword+"'") {
		t.Errorf("the definition lost its password:\n%s", xml)
	}
	records := b.l.Virsh(t, b.to.Name, "metadata", b.name, "urn:virtfleet:1", "--config")
	if !inOrder(`phase="Failed"`, `mode="PostCopy"`, "was destroyed").MatchString(records) {
		t.Errorf("records: %s", records)
	}
	b.tf.Run(t, "apply")
	if from, to := b.state(b.from), b.state(b.to); from != "" || !strings.HasPrefix(to, "running") {
		t.Errorf("at the source it is %q, on the target %q", from, to)
	}
	if read := outputInGuest(t, b.l, b.to.Name, b.name, checksum); read != b.boots.written {
		t.Errorf("the guest wrote %s and reads %s", b.boots.written, read)
	}
	noChanges(t, b.tf)
}
