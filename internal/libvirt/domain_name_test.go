package libvirt

import "testing"

// TestDomainName: the name is the domain's own, not one of its parts', and nothing after it is read: the devices are
// most of a definition, and each plan reads the names of all its VMs.
func TestDomainName(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		`<domain type="qemu"><name>a&amp;b</name><devices><disk`:                                  "a&b",
		`<domain><metadata><x:name xmlns:x="urn:x">x</x:name></metadata><name>vm</name></domain>`: "vm",
		`<domain><os><name>x</name></os><name>vm</name></domain>`:                                 "vm",
	} {
		if got, err := domainName(document); got != want || err != nil {
			t.Errorf("the name in %s is %q (%v), want %q", document, got, err, want)
		}
	}
	if got, err := domainName(`<domain><title>vm</title></domain>`); err == nil {
		t.Errorf("a domain without a name is called %q", got)
	}
}
