package hostmaintenance_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAccHostMaintenance_rolling runs the example that gives each host its turn: each is empty while the work is done,
// and no guest stops.
func TestAccHostMaintenance_rolling(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.defineVM(t, "web", "", "")
	example, err := os.ReadFile("../../../examples/rolling-maintenance/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"main.tf": string(example), "lab_override.tf": p.block()} {
		if err := os.WriteFile(filepath.Join(p.tf.Dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, host := range []string{p.from.Name, p.to.Name} {
		// The work: it sees what runs on the host.
		uri := p.l.Host(host).SocketURI()
		list := fmt.Sprintf("echo $HOST: $(virsh --quiet --connect '%s' list --name) >> work", uri)
		p.tf.Run(t, "apply", "-var", fmt.Sprintf("under_maintenance=[%q]", host), "-var", "update="+list)
		if p.where(t, "web") == host {
			t.Errorf("the VM is on %s, whose turn it is", host)
		}
		p.tf.Run(t, "apply")
		if out, empty := p.tf.Empty(t); !empty {
			t.Errorf("after the turn of %s:\n%s", host, out)
		}
		p.expect(t, map[string]string{"web": p.from.Name})
	}
	work, err := os.ReadFile(filepath.Join(p.tf.Dir, "work"))
	if want := p.from.Name + ":\n" + p.to.Name + ":\n"; err != nil || string(work) != want {
		t.Errorf("the work was done on %q (%v), want empty hosts %q", work, err, want)
	}
	state := p.l.Virsh(t, p.from.Name, "domstate", "--reason", p.prefix+"-web")
	if !strings.Contains(state, "migrated") {
		t.Errorf("the VM is %s; want it never stopped", state)
	}
	for _, h := range []string{p.from.Name, p.to.Name} {
		if secrets := p.l.Secrets(t, h); secrets != "" {
			t.Errorf("%s keeps a mark: %s", h, secrets)
		}
	}
}
