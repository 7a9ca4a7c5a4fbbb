package libvirt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// between gives what comes after one word and before the next other.
func between(text, after, before string) string {
	_, text, _ = strings.Cut(text, after)
	text, _, _ = strings.Cut(text, before)
	return text
}

func TestMigrate_failsWhereItCannotWork(t *testing.T) {
	t.Parallel()
	l, a, b := sides(t)
	ctx := t.Context()
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	image := l.Image(t, a.machine.Name, name+".qcow2", "qcow2", 16<<20)
	uuid, err := a.DefineDomain(ctx, guestXML(l, name, "noagent", fmt.Sprintf(`<disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/><source file='%s'/><target dev='vda' bus='virtio'/></disk>
      <disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>`, image)))
	must(t, err)
	want(t, a.Migrate(ctx, uuid, b.Host, Migration{URI: b.uri()}), ErrOperationInvalid)
	want(t, a.Migrate(ctx, uuidOf(404), b.Host, Migration{URI: b.uri()}), ErrNotFound)
	want(t, a.Migrate(ctx, uuid, testDriver(t), Migration{}), ErrUnsupported)
	jobs, err := a.BlockJobs(ctx, uuid)
	if err != nil || len(jobs) != 0 {
		t.Errorf("got block jobs %v, %v", jobs, err)
	}
	must(t, a.StartDomain(ctx, uuid))
	want(t, a.Migrate(ctx, uuid, b.Host, Migration{URI: b.uri()}), ErrUnsafe)

	document, err := a.MigratableXML(ctx, uuid)
	must(t, err)
	if !strings.Contains(document, "<uuid>"+uuid) || strings.Contains(document, "<alias") {
		t.Errorf("got %s", document)
	}
	machine := between(document, "machine='", "'")
	running, err := a.Domain(ctx, uuid)
	must(t, err)
	same, err := b.CompareCPU(ctx, "<cpu"+between(running.LiveXML, "<cpu", "</cpu>")+"</cpu>", "qemu", "x86_64", machine)
	must(t, err)
	if same.Match == CPUIncompatible {
		t.Errorf("got %+v", same)
	}
	const other = `<cpu mode='custom' match='exact'><model>EPYC-Milan</model></cpu>`
	lacking, err := b.CompareCPU(ctx, other, "qemu", "x86_64", machine)
	must(t, err)
	if lacking.Match != CPUIncompatible || lacking.Detail == "" {
		t.Errorf("got %+v", lacking)
	}
	t.Logf("%+v, %+v", same, lacking)

	l.Virsh(t, a.machine.Name, "snapshot-create-as", name, "before", "--diskspec", "vda,snapshot=internal")
	snapshots, err := a.Snapshots(ctx, uuid)
	if err != nil || len(snapshots) != 1 || snapshots[0] != "before" {
		t.Errorf("got snapshots %v, %v", snapshots, err)
	}
	err = a.Migrate(ctx, uuid, b.Host, Migration{URI: b.uri(), Unsafe: true})
	want(t, err, ErrOperationInvalid)
	l.Virsh(t, a.machine.Name, "snapshot-delete", name, "before")

	l.Virsh(t, a.machine.Name, "blockcopy", name, "vda", image+".copy", "--transient-job", "--bandwidth", "1")
	jobs, err = a.BlockJobs(ctx, uuid)
	if err != nil || len(jobs) != 1 || jobs[0] != (BlockJob{Target: "vda", Type: BlockCopy}) {
		t.Errorf("got block jobs %v, %v", jobs, err)
	}
	err = a.Migrate(ctx, uuid, b.Host, Migration{URI: b.uri(), Unsafe: true})
	want(t, err, ErrOperationInvalid)
	l.Virsh(t, a.machine.Name, "blockjob", name, "vda", "--abort")

	// Copied, it can go.
	l.Image(t, b.machine.Name, name+".qcow2", "qcow2", 16<<20)
	must(t, <-begin(ctx, uuid, a, b, Migration{
		NonSharedIncremental: true, MigrateDisks: []string{"vda"}, Paused: true, KeepSource: true, Transient: true,
	}))
	left, err := a.Domain(ctx, uuid)
	must(t, err)
	arrived, err := b.Domain(ctx, uuid)
	must(t, err)
	if left.Active() || !left.Persistent || arrived.State != Paused || arrived.Persistent {
		t.Errorf("%s (%s), persistent %t, at the source, %s (%s), persistent %t, on the target",
			left.State, left.Reason, left.Persistent, arrived.State, arrived.Reason, arrived.Persistent)
	}
	t.Logf("left %s (%s), arrived %s (%s)", left.State, left.Reason, arrived.State, arrived.Reason)
}
