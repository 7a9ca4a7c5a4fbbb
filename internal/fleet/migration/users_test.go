package migration

import "testing"

// A path is mentioned in a definition, and not by a longer path that begins with it.
func TestMentions(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]bool{
		`<source file='/images/web1'/>`:                                     true,
		`<source file='/images/web10'/>`:                                    false,
		`<source file='/images/web1.qcow2'/>`:                               false,
		`<source file='/images/web10'/><source file="/images/web1"/>`:       true,
		`<qemu:arg value='file=/images/web1,if=virtio'/>`:                   true,
		`<source file='/images/web2'/>`:                                     false,
		`<source file='/images/web1-a'/><filesystem dir='/images/web1/b'/>`: true,
	} {
		if got := mentions(text, "/images/web1"); got != want {
			t.Errorf("in %s: %v, want %v", text, got, want)
		}
	}
}
