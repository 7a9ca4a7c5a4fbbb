package migration

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// libvirt isn't asked whether a VM with disks that are declared to be shared is safe, so what it would refuse is
// refused here.
func TestDeclared_leavesNothingInDoubt(t *testing.T) {
	t.Parallel()
	const shared = `<disk type='file'><driver cache='none'/><source file='/srv/a'/><target dev='vda'/></disk>`
	for name, tt := range map[string]struct {
		disks string
		want  []string
	}{
		"alone":           {shared, nil},
		"through a cache": {`<disk type='file'><source file='/srv/a'/><target dev='vda'/></disk>`, []string{"False"}},
		"next to another file": {
			shared + `<disk type='file'><source file='/b'/><target dev='vdb'/></disk>`, []string{"False"},
		},
		"next to a volume": {
			shared + `<disk type='volume'><source pool='p' volume='v'/><target dev='vdb'/></disk>`, []string{"False"},
		},
		"next to a medium": {
			shared + `<disk type='file' device='cdrom'><source file='/b'/><target dev='sda'/><readonly/></disk>`,
			[]string{"Unknown"},
		},
		"next to a block device": {
			shared + `<disk type='block'><driver cache='none'/><source dev='/dev/b'/><target dev='vdb'/></disk>`,
			[]string{"Unknown"},
		},
		"next to a block device through a cache": {
			shared + `<disk type='block'><source dev='/dev/b'/><target dev='vdb'/></disk>`, []string{"False", "Unknown"},
		},
		"next to network storage": {
			shared + `<disk type='network'><driver cache='none'/><source protocol='nbd' name='d'><host name='h'/></source>` +
				`<target dev='vdb'/></disk>`, nil,
		},
		"beginning alike": {
			`<disk type='file'><source file='/srv2/a'/><target dev='vda'/></disk>`, []string{"Unknown"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, err := libvirt.Open(libvirt.Config{Name: "kvm1", URI: "test:///default"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = host.Close() })
			m := VM{State: libvirt.Running, Mobility: facts(t, "", tt.disks)}
			o := Options{SharedFilesystems: []string{"/srv"}, CopyStorage: CopyNone}
			var f blockerList
			preflight{vm: m, source: host, target: host, options: o}.plannedCopies(t.Context(), &f)
			var got []string
			for _, b := range f {
				got = append(got, string(b.Status))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s\n%+v", diff, f)
			}
			// At the end it is all or nothing.
			left := (&run{Request: Request{VM: m, Options: o}}).verifyNoDiskLeft()
			if _, blocked := errors.AsType[*BlockedError](left); blocked != slices.Contains(tt.want, "False") {
				t.Errorf("leaves nothing: %v", left)
			}
		})
	}
}

// What a VM that is off has on storage that is declared to be shared isn't copied, and what of that it writes to
// is tried; the rest is copied as ever.
func TestOptions_belongings(t *testing.T) {
	t.Parallel()
	m := VM{UUID: "u", State: libvirt.Shutoff, Mobility: facts(t, "", `<tpm><backend type='emulator'/></tpm>`+
		`<disk type='file'><source file='/srv/a'/><target dev='vda'/></disk>`+
		`<disk type='file'><source file='/srv2/b'/><target dev='vdb'/></disk>`+
		`<disk type='file'><source file='/c'/><target dev='vdc'/></disk>`+
		`<disk type='file' device='cdrom'><source file='/srv/iso'/><target dev='sda'/><readonly/></disk>`)}
	m.Mobility.NVRAM = "/srv/vars"
	const tpm = domain.TPMStateDir + "/u"
	for name, tt := range map[string]struct {
		options                  Options
		carried, shared, written []string
	}{
		"nothing": {Options{}, []string{"/srv/a", "/srv2/b", "/c", "/srv/iso", "/srv/vars", tpm}, nil, nil},
		"a disk": {
			Options{SharedDisks: []string{"vdc"}},
			[]string{"/srv/a", "/srv2/b", "/srv/iso", "/srv/vars", tpm},
			[]string{"/c"},
			[]string{"/c"},
		},
		"a directory": {
			Options{SharedFilesystems: []string{"/srv"}},
			[]string{"/srv2/b", "/c", tpm},
			[]string{"/srv/a", "/srv/iso", "/srv/vars"},
			[]string{"/srv/a", "/srv/vars"},
		},
		"the TPM's directory": { // Not every libvirt leaves its state there.
			Options{SharedFilesystems: []string{domain.TPMStateDir}},
			[]string{"/srv/a", "/srv2/b", "/c", "/srv/iso", "/srv/vars", tpm},
			nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			carried, shared := tt.options.splitLocalFiles(m)
			if diff := cmp.Diff(tt.carried, pathsOf(carried)); diff != "" {
				t.Errorf("carried (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.shared, pathsOf(shared)); diff != "" {
				t.Errorf("shared (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.written, pathsOf(tt.options.declaredSharedFiles(m))); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}

func pathsOf(all []localFile) (paths []string) {
	for _, b := range all {
		paths = append(paths, b.path)
	}
	return paths
}

// libvirt refuses to migrate a VM with a file that hosts don't share, and moves one with a block device: the remedy
// doesn't promise otherwise.
func TestCheckReachable_blockDevice(t *testing.T) {
	t.Parallel()
	host, err := libvirt.Open(libvirt.Config{Name: "kvm1", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	p := preflight{vm: VM{State: libvirt.Running}, source: host, target: host}
	here, there := &libvirt.Volume{CapacityBytes: 1}, &libvirt.Volume{CapacityBytes: 1}
	for _, block := range []bool{false, true} {
		for _, known := range []*libvirt.Volume{there, nil} {
			var f blockerList
			pool := here
			if known == nil {
				pool = nil
			}
			p.checkReachable(t.Context(), &f, domain.MobileDisk{Key: "data", Path: "/dev/b", Block: block}, pool, known)
			if len(f) != 1 {
				t.Fatalf("block device: %t: %+v", block, f)
			}
			refused := strings.Contains(f[0].Remedy, "libvirt will refuse")
			if corrupted := strings.Contains(f[0].Remedy, "corrupted"); corrupted != block || refused && block {
				t.Errorf("block device: %t: %s", block, f[0].Remedy)
			}
		}
	}
}
