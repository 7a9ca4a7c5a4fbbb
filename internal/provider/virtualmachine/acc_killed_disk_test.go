package virtualmachine_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// killedDisk is a running VM that gets or loses the disk "more".
type killedDisk struct {
	l        *lab.Lab
	tf       *acctest.CLI
	name, at string
	vm       hcl
	changed  int
}

// config declares the VM with a disk, and with "more" if it is to have it.
func (k *killedDisk) config(t *testing.T, host acctest.Host, more bool) {
	t.Helper()
	disks := "{\n"
	for key, wanted := range map[string]bool{"root": true, "more": more} {
		if wanted {
			disks += fmt.Sprintf("    %s = { pool = virtfleet_storage_pool.vms.name, size = \"8Mi\" }\n", key)
		}
	}
	k.tf.Config(t, acctest.Block{Lab: k.l, Hosts: []acctest.Host{host}}.String()+fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = %[2]q }
}
`, k.name, k.at)+k.vm.with(hcl{
		"host": quote("kvm1"), "disks": disks + "  }", "labels": fmt.Sprintf(`{ change = "%d" }`, k.changed),
	}).String())
}

// has tells whether a file of the host has a text.
func (k *killedDisk) has(file, text string) bool {
	content, err := os.ReadFile(k.l.Host("kvm1").Path(file))
	return err == nil && bytes.Contains(content, []byte(text))
}

// defined and attached tell whether what libvirt stores, or what runs, has a text.
func (k *killedDisk) defined(text string) bool {
	return k.has("/etc/libvirt/qemu/"+k.name+".xml", text)
}

func (k *killedDisk) attached() bool {
	return k.has("/run/libvirt/qemu/"+k.name+".xml", "ua-disk-more")
}

// file tells whether the disk's file is there.
func (k *killedDisk) file() bool {
	files, err := filepath.Glob(k.l.Host("kvm1").Path(k.at + "/" + k.name + "-more-*"))
	return err == nil && len(files) > 0
}

func (k *killedDisk) inode(t *testing.T) string {
	t.Helper()
	return k.l.Run(t, "kvm1", "sh", "-c", "stat -c '%i %n' "+k.at+"/"+k.name+"-more-* || true")
}

// hasDisk expects that the VM has the disk or not, in both definitions and in its pool, and that nothing is marked as
// begun.
func (k *killedDisk) hasDisk(t *testing.T, more bool) {
	t.Helper()
	want, count := []string{k.name + "-root"}, 0
	if more {
		want, count = []string{k.name + "-more", k.name + "-root"}, 1
	}
	if got := volumes(t, k.l, "kvm1", k.name); !slices.Equal(got, want) {
		t.Errorf("the pool has %q; want %q", got, want)
	}
	for _, form := range [][]string{{"--inactive"}, nil} {
		xml := k.l.Virsh(t, "kvm1", append([]string{"dumpxml", k.name}, form...)...)
		has := strings.Count(xml, "<source file='"+k.at+"/"+k.name+"-more-")
		if has != count || !more && strings.Contains(xml, "-more-") {
			t.Errorf("%q: the VM should have the disk: %v:\n%s", form, more, xml)
		}
		if strings.Contains(xml, `creating="`) || strings.Contains(xml, `removing="`) {
			t.Errorf("%q: something is still marked as begun:\n%s", form, xml)
		}
	}
}

// TestAccVirtualMachine_killedDisk: the provider is killed at each step in which a running VM gets or loses a disk of
// its own. The VM's record names the volume. The next change of the VM completes what was begun or gives it up, as the
// user declares then. The guest isn't restarted, and no volume is without an owner.
func TestAccVirtualMachine_killedDisk(t *testing.T) {
	t.Parallel()
	for moment, m := range map[string]struct {
		// had, wanted and then tell whether the disk is declared before, in the apply that is killed, and in the next one.
		had, wanted, then bool
		// so tells that it is time: nothing that the host answers from then on reaches the provider.
		so func(k *killedDisk) bool
		// attached says whether QEMU has the disk then; kept, that the next apply must not create the file again.
		attached, kept bool
		// defined says that the VM's definition has the disk then, so that it is removed as any other is.
		defined bool
		// alone says that nothing but the disk is declared otherwise then.
		alone bool
	}{
		"volume made": {wanted: true, then: true, so: (*killedDisk).file},
		"given up":    {wanted: true, so: (*killedDisk).file, alone: true},
		"recorded": {wanted: true, so: func(k *killedDisk) bool {
			return k.file() && k.defined("-more-") && !k.defined(`creating="`)
		}, defined: true, alone: true},
		"recorded and wanted": {wanted: true, then: true, so: func(k *killedDisk) bool {
			return k.file() && k.defined("-more-") && !k.defined(`creating="`)
		}, kept: true, alone: true},
		"attached": {wanted: true, then: true, so: (*killedDisk).attached, attached: true, kept: true},
		"detached": {had: true, so: func(k *killedDisk) bool { return !k.attached() }, alone: true},
	} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			l := lab.Open(t)
			k := &killedDisk{l: l, tf: acctest.NewCLI(t), name: lab.Name(t)}
			k.at = "/var/lib/libvirt/" + k.name
			l.RemoveDomain(t, k.name)
			k.vm = idleVM(l, k.name)
			if m.had { // Only a guest gives a disk back.
				k.vm = vmWithKernelWords(l, k.name).with(talking)
			}
			direct := acctest.Host{Of: l.Host("kvm1")}
			k.config(t, direct, m.had)
			k.tf.Run(t, "apply")
			process := &started{l: l, host: "kvm1", name: k.name}
			if err := process.same(t)(nil); err != nil {
				t.Fatal(err)
			}

			so := func() bool { return m.so(k) }
			k.config(t, viaProxy(l.Gate(t, "kvm1", so), "kvm1"), m.wanted)
			apply := k.tf.Start(t, "apply")
			waitWhileRunning(t, moment, apply, so)
			if err := apply.KillProvider(); err != nil {
				t.Fatal(err)
			}
			if out, err := apply.Wait(); err == nil {
				t.Fatalf("the apply continued:\n%s", out)
			}
			if k.attached() != m.attached || !k.file() {
				t.Fatalf("killed too late: attached %v, a file %v", k.attached(), k.file())
			}
			if !k.defined(`path="` + k.at + "/" + k.name + "-more-") {
				t.Error("the VM's record doesn't name the volume")
			}
			files := k.inode(t)

			if !m.alone {
				k.changed++
			}
			k.config(t, direct, m.then)
			plan := k.tf.Run(t, "plan")
			says := `- "kvm1: ` + k.name + `/` + k.name + `-more-`
			if m.defined {
				says = "Disks are deleted with their data"
			}
			if !m.kept && !strings.Contains(plan, says) {
				t.Errorf("the plan doesn't say %s:\n%s", says, plan)
			}
			if now := k.inode(t); now != files {
				t.Errorf("the plan made\n%s\nof\n%s", now, files)
			}
			k.tf.Run(t, "apply")
			if now := k.inode(t); m.kept && now != files {
				t.Errorf("the disk was created again: there was\n%s\nand is\n%s", files, now)
			}
			k.hasDisk(t, m.then)
			if err := process.same(t)(nil); err != nil {
				t.Error(err)
			}
			noChanges(t, k.tf)
			destroyAndCheck(t, l, k.tf, k.name)
			if left := l.Run(t, "kvm1", "ls", "-A", k.at); left != "" {
				t.Errorf("left are %s", left)
			}
		})
	}
}
