package domain

import "testing"

// TestShellWord: a command that users copy names the VM, whatever its name is.
func TestShellWord(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"web-1": "web-1", "/srv/a_b.qcow2": "/srv/a_b.qcow2", "old web.1 (prod)": "'old web.1 (prod)'",
		"it's": `'it'\''s'`, "-dash": "'-dash'", "": "''", "a\nb": "'a\nb'",
	} {
		if got := ShellWord(name); got != want {
			t.Errorf("ShellWord(%q) = %s; want %s", name, got, want)
		}
	}
}
