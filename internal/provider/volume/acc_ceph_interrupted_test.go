package volume_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// interruptPatience is longer than an interrupted copy takes to end, and shorter than each call's own limit together.
const interruptPatience = time.Minute

// TestAccVolume_cephInterrupted: while QEMU copies into Ceph, no run sees a virtual machine. If the run is killed, the
// copying ends with it, and so it does if libvirtd is killed, at the latest when the volume is created again. What is
// left of the volume can't be imported, no virtual machine gets it, and the next apply creates it again.
func TestAccVolume_cephInterrupted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	h := l.StartHost(t)
	ceph := l.Ceph(t, name)
	content := make([]byte, 48<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	base := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: h}}}.String() + pool(name) + cephPool(ceph, name) +
		imageOf(t, content)
	declared := base + inCeph("root", "image = virtfleet_image.base.id\nclone = \"full\"")
	ref := name + "-ceph/root"
	imported := declared + fmt.Sprintf("import {\n  to = virtfleet_volume.root\n  id = %q\n}\n", ref)
	conn, err := libvirt.Open(libvirt.Config{Name: h.Name, URI: h.SocketURI()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	record := hostset.Creation{Kind: "volume", Name: ref}
	tf := acctest.NewCLI(t)
	tf.Config(t, base)
	tf.Run(t, "apply")
	tf.Config(t, declared)
	copiers := func() string {
		return strings.TrimSpace(l.Virsh(t, h.Name, "list", "--all", "--name"))
	}
	last := ""
	begins := func() *acctest.Running {
		t.Helper()
		running := tf.Start(t, "apply")
		last = awaitCopy(t, l, h.Name, running, last)
		return running
	}
	killed := func(running *acctest.Running) {
		t.Helper()
		if err := running.Kill(); err != nil {
			t.Fatal(err)
		}
		<-running.Done()
	}
	left := func() {
		t.Helper()
		if text, err := record.Begun(t.Context(), conn); text == "" || err != nil {
			t.Errorf("the record of the creation is %q, %v", text, err)
		}
		if all := ceph.RBD(t, "ls", ceph.Pool); strings.TrimSpace(all) != "root" {
			t.Errorf("Ceph has %q", all)
		}
		if is := tf.Actions(t); is["virtfleet_volume.root"] != "create" {
			t.Errorf("the plan has %v", is)
		}
	}
	// Clients write that many bytes a second.
	ceph.RBD(t, "config", "pool", "set", ceph.Pool, "rbd_qos_bps_limit", fmt.Sprint(2<<20))

	running := begins()
	uuid := strings.TrimSpace(l.Virsh(t, h.Name, "domuuid", copiers()))
	if err := seesNone(t, conn, copiers(), uuid); err != nil {
		t.Error(err)
	}
	killed(running)
	lab.Await(t, "the end of the copier", func() bool { return copiers() == "" })
	left()
	tf.Config(t, imported)
	if out := tf.Fail(t, "plan"); !strings.Contains(out, "may lack a part of its content") {
		t.Errorf("the import says: %s", out)
	}
	const after = "run_strategy = \"Halted\"\ndepends_on = [virtfleet_volume.root]"
	tf.Config(t, declared+onVolume(h.Name, name, ref, after))
	if is := tf.Actions(t); is["virtfleet_volume.root"] != "create" || is["virtfleet_virtual_machine.this"] != "create" {
		t.Errorf("the plan that creates the volume again has %v", is)
	}
	tf.Config(t, base+onVolume(h.Name, name, ref, ""))
	if out := tf.Fail(t, "plan"); !strings.Contains(out, "may lack a part of its content") {
		t.Errorf("the plan of a virtual machine with it says: %s", out)
	}
	tf.Config(t, declared)

	// Both daemons are killed: QEMU continues.
	running = begins()
	restart := l.KillLibvirtd(t, h)
	killed(running)
	restart()
	if copiers() == "" {
		t.Error("libvirtd has ended the copier, although it was killed")
	}
	left()

	// libvirtd alone is killed: the run itself cleans up.
	running = begins()
	l.KillLibvirtd(t, h)()
	if out, err := running.Wait(); err == nil || !strings.Contains(out, "Unable to create volume") {
		t.Errorf("the apply without libvirtd: %v, %s", err, out)
	}
	if all := copiers(); all != "" {
		t.Errorf("the host still has %s", all)
	}

	// Ceph becomes full, and keeps its clients waiting. The user has enough of it.
	running = begins()
	room := ceph.Fill(t)
	if err := running.Interrupt(); err != nil {
		t.Fatal(err)
	}
	if out, err := running.Wait(); err == nil {
		t.Errorf("the apply with a full Ceph: %s", out)
	}
	if all := copiers(); all != "" {
		t.Errorf("the host still has %s", all)
	}
	if is := tf.Actions(t); is["virtfleet_volume.root"] != "create" {
		t.Errorf("the plan has %v", is)
	}
	room()

	// libvirtd hangs, and the user doesn't wait for it, once for each thing to clean up.
	running = begins()
	if err := h.FreezeLibvirtd(t.Context()); err != nil {
		t.Fatal(err)
	}
	interrupted := time.Now()
	if err := running.Interrupt(); err != nil {
		t.Fatal(err)
	}
	if out, err := running.Wait(); err == nil || time.Since(interrupted) > interruptPatience {
		t.Errorf("the apply that was interrupted on a host that hangs took %v: %v, %s", time.Since(interrupted), err, out)
	}
	if err := h.ThawLibvirtd(t.Context()); err != nil {
		t.Fatal(err)
	}
	lab.Await(t, "the end of the copier", func() bool { return copiers() == "" })
	if is := tf.Actions(t); is["virtfleet_volume.root"] != "create" {
		t.Errorf("the plan has %v", is)
	}

	ceph.RBD(t, "config", "pool", "remove", ceph.Pool, "rbd_qos_bps_limit")
	tf.Run(t, "apply")
	inCephIs(t, ceph, "root", content, len(content))
	if text, err := record.Begun(t.Context(), conn); text != "" || err != nil {
		t.Errorf("the record of the creation is %q, %v", text, err)
	}
	noCopier(t, l, h.Name)
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	tf.Run(t, "destroy")
	if all := ceph.RBD(t, "ls", ceph.Pool); all != "" {
		t.Errorf("Ceph still has %s", all)
	}
}

// awaitCopy waits until a host copies with another copier than the last one, and returns that one's id. The host has no
// other domain.
func awaitCopy(t *testing.T, l *lab.Lab, host string, running *acctest.Running, last string) (id string) {
	t.Helper()
	lab.Await(t, "a copy into Ceph", func() bool {
		select {
		case <-running.Done():
			t.Fatalf("the apply ended early: %s", running.Output())
		default:
		}
		all := strings.TrimSpace(l.Virsh(t, host, "list", "--all", "--name"))
		if all == "" {
			return false
		}
		var err error
		if id, err = l.TryVirsh(t, host, "domid", all); err != nil || id == last {
			return false
		}
		job, err := l.TryVirsh(t, host, "blockjob", all, "vda", "--raw")
		return err == nil && strings.Contains(job, "cur=") && !strings.Contains(job, "cur=0\n")
	})
	return id
}

// seesNone checks that a host shows nothing of a domain that copies.
func seesNone(t *testing.T, conn *libvirt.Host, name, uuid string) error {
	t.Helper()
	domains, err := conn.Domains(t.Context())
	stats, statsErr := conn.Stats(t.Context(), libvirt.StatsState)
	if err := errors.Join(err, statsErr); err != nil || len(domains) > 0 || len(stats) > 0 {
		return fmt.Errorf("the host shows %v and %v: %w", domains, stats, err)
	}
	if _, err := conn.Domain(t.Context(), uuid); !errors.Is(err, libvirt.ErrNotFound) {
		return fmt.Errorf("the host shows domain %s: %w", uuid, err)
	}
	if _, err := conn.DomainByName(t.Context(), name); !errors.Is(err, libvirt.ErrNotFound) {
		return fmt.Errorf("the host shows domain %s: %w", name, err)
	}
	return nil
}
