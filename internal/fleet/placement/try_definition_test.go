package placement

import (
	"strings"
	"testing"
)

// TestRefused: the remedy is about a program only if libvirt's refusal names that program.
func TestRefused(t *testing.T) {
	t.Parallel()

	for refusal, remedy := range map[string]string{
		"XML error: Invalid value for attribute 'type' in element 'backend': 'passt'.":                  "package passt",
		"operation failed: Unable to find a satisfying virtiofsd":                                       "Install virtiofsd",
		"unsupported configuration: chardev 'spicevmc' not supported without spice graphics":            "-modules-spice",
		"internal error: hugetlbfs filesystem is not mounted or disabled by administrator config":       "Mount hugetlbfs",
		"internal error: Unable to find any usable hugetlbfs mount for 1048576 KiB":                     "Mount hugetlbfs",
		"unsupported configuration: CPU mode 'host-passthrough' for x86_64 qemu domain isn't supported": "",
	} {
		p := refused(refusal)
		if !strings.Contains(p.Detail, refusal) || !strings.Contains(p.Remedy, remedy) || remedy == "" && p.Remedy != "" {
			t.Errorf("%q: %+v", refusal, p)
		}
	}
}
