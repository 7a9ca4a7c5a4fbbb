package libvirt

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	golibvirt "libvirt.org/go/libvirt"
)

// TestGuestInfo_steersNoTerminal: what a guest says is shown to operators, who trust it less than themselves.
func TestGuestInfo_steersNoTerminal(t *testing.T) {
	t.Parallel()
	const evil, tame = "a\x1b[2J\r\nb\u202ec\xff", "a [2J  b c?"
	info := guestInfo(&golibvirt.DomainGuestInfo{
		HostnameSet: true, Hostname: evil, OS: &golibvirt.DomainGuestInfoOS{PrettyName: evil},
		Users: []golibvirt.DomainGuestInfoUser{{Name: evil}},
		FileSystems: []golibvirt.DomainGuestInfoFileSystem{{
			MountPoint: evil, Disks: []golibvirt.DomainGuestInfoFileSystemDisk{{Serial: evil}},
		}},
		Disks: []golibvirt.DomainGuestInfoDisk{{Dependencies: []golibvirt.DomainGuestInfoDiskDependency{{Name: evil}}}},
		Interfaces: []golibvirt.DomainGuestInfoInterface{{
			Name: evil, Addrs: []golibvirt.DomainGuestInfoIPAddress{{Addr: evil}, {Addr: "fe80::1"}, {Addr: "10.0.0.1"}},
		}},
	}, 0, true)
	want := map[string]string{
		"host name": *info.Hostname, "system": info.OS.PrettyName, "user": info.Users[0].Name,
		"filesystem": info.Filesystems[0].MountPoint, "its disk": info.Filesystems[0].Disks[0].Serial,
		"disk": info.Disks[0].Dependencies[0], "interface": info.Interfaces[0].Name,
	}
	for name, got := range want {
		if got != tame {
			t.Errorf("%s: got %q, want %q", name, got, tame)
		}
	}
	var addresses []string
	for _, a := range info.Interfaces[0].Addresses {
		addresses = append(addresses, a.IP)
	}
	if diff := cmp.Diff([]string{"fe80::1", "10.0.0.1"}, addresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if got := printable(evil); got != "a [2J \nb c?" {
		t.Errorf("several lines became %q", got)
	}
	plainLines(reflect.ValueOf((*GuestInfo)(nil))) // Nothing reported.
}
