package domainstats_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccDomainStats_sizesOfADisk: how far a disk is written, what it takes on the host, and where a user wants to be
// told that it is about to be full, are what virsh says. The VM is paused, so that nothing changes meanwhile.
func TestAccDomainStats_sizesOfADisk(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	id, name, threshold := uuid.NewString(), lab.Name(t), strconv.Itoa(48<<20)
	path := l.Image(t, "kvm2", name+".qcow2", "qcow2", 64<<20)
	empty := l.Image(t, "kvm2", name+"-empty.raw", "raw", 8<<20)
	l.Define(t, "kvm2", fmt.Sprintf(`<domain type="qemu"><name>%s</name><uuid>%s</uuid><memory unit="MiB">32</memory>
  <os><type arch="x86_64" machine="q35">hvm</type></os><devices>
    <disk type="file" device="disk"><driver name="qemu" type="qcow2"/><source file="%s"/>
      <target dev="vda" bus="virtio"/><alias name="ua-disk-root"/></disk>
    <disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="%s"/>
      <target dev="vdb" bus="virtio"/><alias name="ua-disk-data"/></disk>
  </devices></domain>`, name, id, path, empty))
	l.Virsh(t, "kvm2", "start", "--paused", name)
	// As its guest would write, which needs no guest to do so.
	l.Virsh(t, "kvm2", "qemu-monitor-command", name, "--hmp",
		`qemu-io -d /machine/peripheral/ua-disk-root/virtio-backend "write 5M 1M"`)
	l.Virsh(t, "kvm2", "domblkthreshold", name, "vda", threshold)

	prefix := "stats." + id + ".disks."
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: acctest.On(l, "kvm2") + data(fmt.Sprintf(`virtual_machine_id = %q`, id)),
			Check: func(s *terraform.State) error {
				said := domstats(t, l, "kvm2", name)
				got := s.RootModule().Resources[address].Primary.Attributes
				for attribute, param := range map[string]string{
					"root.allocation_bytes": "block.0.allocation", "root.capacity_bytes": "block.0.capacity",
					"root.physical_bytes": "block.0.physical", "root.threshold_bytes": "block.0.threshold",
					"root.path": "block.0.path", "root.write_bytes": "block.0.wr.bytes",
					"data.allocation_bytes": "block.1.allocation", "data.capacity_bytes": "block.1.capacity",
					"data.physical_bytes": "block.1.physical", "data.threshold_bytes": "block.1.threshold",
					"data.path": "block.1.path",
				} {
					if got[prefix+attribute] != said[param] {
						t.Errorf("%s is %q, virsh says of %s %q", attribute, got[prefix+attribute], param, said[param])
					}
				}
				written, err := strconv.Atoi(said["block.0.allocation"])
				if err != nil || written < 1<<20 || said["block.0.threshold"] != threshold || said["block.1.threshold"] != "" {
					t.Errorf("virsh says %v", said)
				}
				return nil
			},
		}},
	})
}
