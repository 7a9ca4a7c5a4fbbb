package lifecycle

import (
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// libvirt makes an encrypted volume only under a name that QEMU takes for an id. All other volumes are called as ever.
func TestVolumeName_ofAnEncryptedDisk(t *testing.T) {
	t.Parallel()

	const id = "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10"

	for vm, want := range map[string]struct{ plain, encrypted string }{
		"web":                    {"web-root-6a9ae2dc", "web-root-6a9ae2dc"},
		"2024-web":               {"2024-web-root-6a9ae2dc", "vm-2024-web-root-6a9ae2dc"},
		"_web":                   {"_web-root-6a9ae2dc", "vm-_web-root-6a9ae2dc"},
		"über":                   {"_ber-root-6a9ae2dc", "vm-_ber-root-6a9ae2dc"},
		strings.Repeat("7", 200): {strings.Repeat("7", 150) + "-6a9ae2dc", "vm-" + strings.Repeat("7", 147) + "-6a9ae2dc"},
	} {
		spec := domain.Spec{Name: vm, Disks: map[string]domain.Disk{"root": {}}}
		if got := placement.VolumeName(spec, "root", id); got != want.plain {
			t.Errorf("%s: %q, want %q", vm, got, want.plain)
		}

		spec.Disks["root"] = domain.Disk{Values: domain.Values{
			domain.EncryptionSecret: "5a1bb6ff-3f0b-4c5e-9d3a-000000000001",
		}}

		got := placement.VolumeName(spec, "root", id)
		if got != want.encrypted || !libvirt.EncryptableName(got) {
			t.Errorf("%s, encrypted: %q, want %q", vm, got, want.encrypted)
		}
	}
}

// TestRetire: the record of a volume that is replaced stays if the volume is another file, whatever its pool. Of two
// volumes of one name, in two pools, both records stay.
func TestRetire(t *testing.T) {
	t.Parallel()

	at := func(pool, dir string) domain.OwnDisk {
		return domain.OwnDisk{Pool: pool, Volume: "web-root", Path: dir + "/web-root", HostUUID: "one"}
	}
	records := map[string]domain.OwnDisk{"root": at("c", "/c")}

	// A second pool on the directory: that file is the new disk's, and must not be removed for the record.
	retire(records, "root", at("alias", "/c"))
	retire(records, "root", at("a", "/a"))
	retire(records, "root", at("b", "/b"))
	retire(records, "root", at("b", "/b"))

	var kept []string

	for key, o := range records {
		if key != "root" {
			kept = append(kept, o.Path)
		}

		if !strings.HasPrefix(key, "root") {
			t.Errorf("%s is no record of the disk", key)
		}
	}

	slices.Sort(kept)

	if !slices.Equal(kept, []string{"/a/web-root", "/b/web-root"}) {
		t.Errorf("retired are %v", kept)
	}
}
