package virtualmachine_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// ofVolume tells whether the content of a volume of a VM in a host's pool is as asked. The volume's name ends with a
// part of the VM's UUID, which a test doesn't know while the VM is created.
func ofVolume(l *lab.Lab, host, pool, volume string, is func(content []byte) bool) bool {
	files, err := filepath.Glob(l.Host(host).Path("/var/lib/libvirt/" + pool + "/" + volume + "-*"))
	if err != nil || len(files) != 1 {
		return false
	}
	content, err := os.ReadFile(files[0])
	return err == nil && is(content)
}

// TestAccVirtualMachine_killedCreate: the provider is killed at each step of the creation of a VM with a disk from an
// image and a medium of cloud-init. The VM is defined before its disks are created, with the record of what is begun:
// so the next apply completes this VM, and no volume is without an owner. The volumes that may lack a part are created
// again under the same names, and what the guest may have seen stays as it is.
func TestAccVirtualMachine_killedCreate(t *testing.T) {
	t.Parallel()
	const userData = "#cloud-config\npassword: killed\n"
	diskMade := func(l *lab.Lab, name string) bool {
		return ofVolume(l, "kvm1", name, name+"-root", func(b []byte) bool { return bytes.HasPrefix(b, []byte("QFI\xfb")) })
	}
	for moment, m := range map[string]struct {
		// so tells that it is time: nothing that the host answers from then on reaches the provider.
		so func(l *lab.Lab, name string) bool
		// has are the VM's volumes then. kept says that the next apply must not create them again, and otherwise that the
		// user declares the VM in another way, and removes what the error names.
		has             []string
		kept, otherwise bool
		// state is what the VM may be then.
		state string
	}{
		"medium made": { // It is the first of the two that is made.
			so: func(l *lab.Lab, name string) bool {
				return ofVolume(l, "kvm1", name, name+"-cloud-init", func(b []byte) bool {
					return bytes.Contains(b, []byte(userData))
				})
			},
			has: []string{"cloud-init"}, state: "shut off",
		},
		"disk made":          {so: diskMade, has: []string{"cloud-init", "root"}, state: "shut off"},
		"declared otherwise": {so: diskMade, has: []string{"cloud-init", "root"}, otherwise: true, state: "shut off"},
		"disks recorded": {
			so: func(l *lab.Lab, name string) bool {
				definition, _ := os.ReadFile(l.Host("kvm1").Path("/etc/libvirt/qemu/" + name + ".xml"))
				return bytes.Contains(definition, []byte(name+"-root")) && !bytes.Contains(definition, []byte(`creating="true"`))
			},
			has: []string{"cloud-init", "root"}, kept: true, state: "shut off",
		},
		"started": {
			so:  func(l *lab.Lab, name string) bool { return exists(l, "kvm1", lab.QEMUPIDFile(name)) },
			has: []string{"cloud-init", "root"}, kept: true, state: "paused or running",
		},
	} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			l := lab.Open(t)
			tf := acctest.NewCLI(t)
			name := lab.Name(t)
			l.RemoveDomain(t, name)
			image := imageFile(t)
			storage := func(host acctest.Host) string {
				hosts := []acctest.Host{host, {Of: l.Host("kvm2")}}
				return acctest.Block{Lab: l, Hosts: hosts}.String() + poolWithImage(name, image)
			}
			direct := acctest.Host{Of: l.Host("kvm1")}
			vm := idleVM(l, name).with(hcl{
				"host":  quote("kvm1"),
				"disks": `{ root = { pool = virtfleet_storage_pool.vms.name, image = virtfleet_image.base.id, size = "48Mi" } }`,
				// It names the pool: the medium goes into that of the disk.
				"cloud_init": fmt.Sprintf("{ user_data = %q }", userData),
			}).String()
			has := func(when string, want ...string) {
				t.Helper()
				names := []string{"base"}
				for _, disk := range want {
					names = append(names, name+"-"+disk)
				}
				slices.Sort(names)
				if got := volumes(t, l, "kvm1", name); !slices.Equal(got, names) {
					t.Errorf("%s: the pool has %q; want %q", when, got, names)
				}
			}
			inodes := func() string {
				return l.Run(t, "kvm1", "sh", "-c", "stat -c '%i %n' /var/lib/libvirt/"+name+"/"+name+"-*")
			}
			tf.Config(t, storage(direct))
			tf.Run(t, "apply")

			gate := l.Gate(t, "kvm1", func() bool { return m.so(l, name) })
			tf.Config(t, storage(viaProxy(gate, "kvm1"))+vm)
			apply := tf.Start(t, "apply")
			waitWhileRunning(t, moment, apply, func() bool { return m.so(l, name) })
			if err := apply.KillProvider(); err != nil {
				t.Fatal(err)
			}
			if out, err := apply.Wait(); err == nil {
				t.Fatalf("the apply continued:\n%s", out)
			}
			if found := strings.TrimSpace(l.Virsh(t, "kvm1", "domstate", name)); !strings.Contains(m.state, found) {
				t.Fatalf("the VM is %s, it should be %s", found, m.state)
			}
			if state, _ := tf.State(t, address); state != nil {
				t.Fatalf("Terraform knows of a VM: %v", state["id"])
			}
			begun, files := uuidOf(t, l, "kvm1", name), inodes()
			has("killed", m.has...)

			// The plan creates the VM, touches nothing else, and changes nothing on the host.
			tf.Config(t, storage(direct)+vm)
			for at, change := range tf.Plan(t) {
				if want := map[bool]string{true: "create", false: "no-op"}[at == address]; change.Actions != want {
					t.Errorf("%s is planned as %s; want %s", at, change.Actions, want)
				}
			}
			if now := inodes(); now != files {
				t.Errorf("the plan made\n%s\nof\n%s", now, files)
			}

			size := "48 MiB"
			if m.otherwise {
				size = "40 MiB"
				tf.Config(t, storage(direct)+strings.Replace(vm, "48Mi", "40Mi", 1))
				out := tf.Fail(t, "plan")
				expect(t, out, "Error: Name already taken", "was interrupted while it created it")
				for _, command := range regexp.MustCompile(`"virsh ([^"]+)"`).FindAllStringSubmatch(out, -1) {
					l.Virsh(t, "kvm1", strings.Fields(command[1])...)
				}
				has("removed by hand")
			}

			tf.Run(t, "apply")
			state, tainted := tf.State(t, address)
			if (state["id"] == begun) == m.otherwise || tainted || state["status"] != "Running" {
				t.Errorf("VM %v, tainted %v, %v; begun was %s", state["id"], tainted, state["status"], begun)
			}
			if err := onHosts(t, l, name, "running", "")(nil); err != nil {
				t.Error(err)
			}
			has("applied", "cloud-init", "root")
			if now := inodes(); m.kept && now != files {
				t.Errorf("the disks were created again: there were\n%s\nand are\n%s", files, now)
			}
			root := strings.Fields(l.Virsh(t, "kvm1", "domblklist", name))
			i := slices.IndexFunc(root, func(s string) bool { return strings.Contains(s, name+"-root-") })
			if i < 0 {
				t.Fatalf("the VM has %q", root)
			}
			if err := contains(l.Run(t, "kvm1", "qemu-img", "info", "-U", root[i]), "virtual size: "+size,
				"backing file: /var/lib/libvirt/"+name+"/base-"); err != nil {
				t.Error(err)
			}
			medium, _, err := seedIn(t, l, "kvm1", name)
			if err != nil || medium["user-data"] != userData || !strings.Contains(medium["meta-data"], fmt.Sprint(state["id"])) {
				t.Errorf("the medium has %q, %v", medium, err)
			}
			if mark := l.Virsh(t, "kvm1", "metadata", name, "urn:virtfleet:1", "--config"); strings.Contains(mark, "creating") {
				t.Errorf("something is still marked as being created: %s", mark)
			}
			noChanges(t, tf)

			tf.Config(t, storage(direct))
			tf.Run(t, "apply")
			has("without the VM")
			destroyAndCheck(t, l, tf, name)
		})
	}
}
