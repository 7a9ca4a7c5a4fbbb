package placement

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A new VM isn't created where it would get the file with another VM's UEFI variables, whether the definitions name
// that file or libvirt names it after the VM.
func TestFitsNVRAM(t *testing.T) {
	t.Parallel()

	const files = "/var/lib/libvirt/qemu/nvram/"

	wants := func(name, firmware, file string) Desired {
		d := Desired{Spec: domain.Spec{Name: name, Firmware: domain.Firmware{Type: &firmware}, Values: domain.Values{}}}
		if file != "" {
			d.Spec.Values["firmware.nvram"] = file
		}

		return d
	}

	for name, tt := range map[string]struct {
		other, os string
		d         Desired
		own, file string
	}{
		"declared twice": {"db", "<nvram>/srv/vars.fd</nvram>", wants("web", "efi", "/srv//vars.fd"), "", "/srv//vars.fd"},
		"renamed": {
			"db", "<nvram>" + files + "web_VARS.fd</nvram>", wants("web", "efi", ""), "", files + "web_VARS.fd",
		},
		"named after the other": {"db", "", wants("web", "efi", files+"db_VARS.fd"), "", files + "db_VARS.fd"},
		"files of their own":    {"db", "", wants("web", "efi", ""), "", ""},
		"no variables":          {"db", "<nvram>" + files + "web_VARS.fd</nvram>", wants("web", "bios", ""), "", ""},
		"replaces the other":    {"web", "", wants("web", "efi", ""), "other", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			e := inventory.NewEntry(libvirt.Domain{UUID: "other", Name: tt.other, PersistentXML: fmt.Sprintf(
				`<domain type='qemu'><name>%s</name><uuid>other</uuid><memory>1024</memory>`+
					`<os firmware='efi'><type>hvm</type>%s</os></domain>`, tt.other, tt.os)})
			v := inventory.NewView(nil, map[string]*inventory.Entry{"other": e})
			problems := tt.d.fitsNVRAM(inventory.Reply{Host: &inventory.Host{Name: "kvm1"}, View: v}, tt.own)

			switch {
			case tt.file == "" && len(problems) > 0:
				t.Errorf("refused: %v", problems)
			case tt.file == "":
			case len(problems) != 1 || problems[0].Attribute != "firmware.nvram":
				t.Errorf("%v; want a problem with %s", problems, tt.file)
			default:
				for _, want := range []string{`"db"`, `"web"`, tt.file} {
					if !strings.Contains(problems[0].Detail, want) {
						t.Errorf("%q doesn't name %s", problems[0].Detail, want)
					}
				}
			}
		})
	}
}
