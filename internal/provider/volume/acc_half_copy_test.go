package volume_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVolume_halfCopy: what a killed move has left of a file doesn't become a virtfleet_volume: neither by an
// import, nor in place of the volume of a host that is fenced. A creation says what has its name. An import warns of
// what a killed upload may have left.
func TestAccVolume_halfCopy(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	dir := "/var/lib/libvirt/" + name
	for _, host := range []string{"kvm1", "kvm2"} {
		l.Virsh(t, host, "pool-define-as", name, "dir", "--target", dir)
		l.Virsh(t, host, "pool-build", name)
		l.Virsh(t, host, "pool-start", name)
		t.Cleanup(func() {
			l.Virsh(t, host, "pool-destroy", name)
			l.Virsh(t, host, "pool-undefine", name)
			l.Run(t, host, "rm", "-r", dir)
		})
	}
	config := func(volume, host, fenced string) string {
		return acctest.Block{Lab: l, Hosts: []acctest.Host{
			{Of: l.Host("kvm1")}, {Of: l.Host("kvm2"), Settings: fenced},
		}}.String() + fmt.Sprintf("resource \"virtfleet_volume\" \"this\" {\n  name = %q\n  pool = %q\n  size = \"1Mi\"\n"+
			"  format = \"raw\"\n  %s\n}\n", volume, name, host)
	}
	tells := func(out string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("it doesn't say %q: %s", part, out)
			}
		}
	}
	moved, other := acctest.NewCLI(t), acctest.NewCLI(t)
	moved.Config(t, config("moved", `host = "kvm2"`, ""))
	moved.Run(t, "apply")
	vm := fmt.Sprintf("<domain type='qemu'><name>%s</name><uuid>c0ffee01-0000-4000-8000-000000%s</uuid>"+
		"<memory unit='MiB'>16</memory><os><type>hvm</type></os><devices><disk type='file'><source file='%s/moved'/>"+
		"<target dev='vda' bus='virtio'/></disk></devices></domain>", name, name[len(name)-6:], dir)
	l.Define(t, "kvm2", vm)
	moved.Run(t, "apply", "-refresh-only")

	conn, err := libvirt.Open(libvirt.Config{Name: "kvm1", URI: l.Host("kvm1").SocketURI()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	record := inventory.ArrivalOf("c0ffee00-0000-4000-8000-000000" + name[len(name)-6:])
	err = record.Begin(t.Context(), conn, fmt.Sprintf(`{"vm":"of-%s","from":"kvm2","began":"2026-01-02T03:04:05Z",`+
		`"paths":["%s/moved","%[2]s/other"]}`, name, dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, volume := range []string{"moved", "other", "image-0123456789ab"} {
		l.Virsh(t, "kvm1", "vol-create-as", name, volume, "1M", "--format", "raw")
	}

	l.Virsh(t, "kvm2", "undefine", name)
	l.Define(t, "kvm1", vm)
	half := []string{
		"not known to be whole", fmt.Sprintf(`move of VM "of-%s" from host "kvm2" to host "kvm1"`, name), record.UsageID(),
	}
	moved.Config(t, config("moved", `host = "kvm2"`, "fenced = true"))
	tells(moved.Fail(t, "plan"), append(half, dir+"/moved")...)
	other.Config(t, config("other", `host = "kvm1"`, ""))
	half = append(half, dir+"/other")
	tells(other.Fail(t, "apply"), half...)
	tells(other.Fail(t, "import", "virtfleet_volume.this", "kvm1/"+name+"/other"), half...)
	// That may as well be an ordinary volume without data yet.
	image := name + "/image-0123456789ab"
	tells(other.Run(t, "import", "virtfleet_volume.this", image), "Volume may be incomplete: "+image, "virtfleet_image")
	other.Run(t, "state", "rm", "virtfleet_volume.this")

	if err := record.End(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	tells(moved.Run(t, "plan", "-refresh-only"), `"kvm2" -> "kvm1"`)
	l.Virsh(t, "kvm1", "undefine", name)
	tells(moved.Fail(t, "plan"), "is fenced", `Host "kvm1" has a volume of this name at `+dir+"/moved")
	other.Run(t, "import", "virtfleet_volume.this", "kvm1/"+name+"/other")
	other.Run(t, "apply") // It records host alone.
	if out, empty := other.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	other.Run(t, "destroy")
	moved.Config(t, config("moved", `host = "kvm2"`, ""))
	moved.Run(t, "destroy")
}
