package volume_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVolume_formatByHand: a volume whose file another tool converts to another format keeps its data. A plan that
// declares the former format fails, and says what to do: each of the ways that it names leads to an empty plan.
func TestAccVolume_formatByHand(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	file := "/var/lib/libvirt/" + name + "/data"
	config := func(says string) {
		tf.Config(t, acctest.OneHost(l)+pool(name)+volume(says))
	}
	const size, asQCOW2, asRaw = "size = \"8Mi\"\n", "format = \"qcow2\"", "format = \"raw\""
	write := func() {
		t.Helper()
		l.Run(t, "kvm1", "qemu-io", "-f", "qcow2", "-c", "write -P 7 1M 2M", file)
	}
	// becomes converts the file as an administrator does.
	becomes := func(format string) {
		t.Helper()
		l.Run(t, "kvm1", "sh", "-ec", "qemu-img convert -O $2 $1 $1.new; mv $1.new $1", "sh", file, format)
		l.Virsh(t, "kvm1", "pool-refresh", name)
	}
	// is wants the data in the file, in that format.
	is := func(format string) {
		t.Helper()
		out := l.Run(t, "kvm1", "qemu-io", "-r", "-f", format, "-c", "read -P 7 1M 2M", "-c", "read -P 0 3M 5M", file)
		if strings.Contains(out, "failed") {
			t.Errorf("the volume lacks its data as %s: %s", format, out)
		}
		if info := l.Run(t, "kvm1", "qemu-img", "info", file); !strings.Contains(info, "file format: "+format) {
			t.Errorf("want %s: %s", format, info)
		}
	}
	empty := func() {
		t.Helper()
		if out, ok := tf.Empty(t); !ok {
			t.Errorf("the plan isn't empty:\n%s", out)
		}
	}
	refused := func(command string, more ...string) {
		t.Helper()
		out := strings.Join(strings.Fields(tf.Fail(t, command)), " ")
		for _, want := range append(more, "Volume would be created again", `on host "kvm1" had format = "qcow2"`,
			`now it has "raw"`, "nothing is planned", `To keep the volume, set format = "raw"`, "virsh pool-refresh "+name) {
			if !strings.Contains(out, want) {
				t.Errorf("%q isn't in:\n%s", want, out)
			}
		}
		is("raw")
	}
	config(size + asQCOW2)
	tf.Run(t, "apply")
	write()

	becomes("raw")
	refused("plan")
	refused("apply")
	becomes("qcow2")
	empty()
	is("qcow2")

	// Once the state has it, only an import takes what is found in the file for more than what a guest wrote there.
	becomes("raw")
	tf.Run(t, "apply", "-refresh-only")
	id := "kvm1/" + name + "/data"
	refused("plan", "terraform state rm", "import it with the id \""+id+"\"")
	becomes("qcow2")
	tf.Fail(t, "plan")
	is("qcow2")
	tf.Run(t, "state", "rm", address)
	tf.Run(t, "import", address, id)
	empty()
	is("qcow2")

	becomes("raw")
	refused("plan")
	config(size + asRaw)
	if got := tf.Actions(t)[address]; got != "no-op" {
		t.Errorf("with the format that it has, the plan does %q", got)
	}
	tf.Run(t, "apply")
	empty()
	is("raw")
	config(strings.Replace(size, "8", "9", 1) + asRaw)
	tf.Run(t, "apply")
	empty()
	is("raw")
	tf.Run(t, "destroy")

	// Without a declared format, the volume stays, too.
	config(size)
	tf.Run(t, "apply")
	write()
	becomes("raw")
	if out := tf.Run(t, "plan", "-refresh-only"); !strings.Contains(out, `format = "qcow2" -> "raw"`) {
		t.Errorf("the change isn't shown in:\n%s", out)
	}
	empty()
	tf.Run(t, "apply")
	empty()
	is("raw")

	// If it is converted back, what is found may be what its guest has written. But no guest makes the file shorter.
	becomes("qcow2")
	length := func() string { return strings.TrimSpace(l.Run(t, "kvm1", "stat", "-c", "%s", file)) }
	short := length()
	converted := func(want string, command ...string) {
		t.Helper()
		was := length()
		out := strings.Join(strings.Fields(tf.Fail(t, command...)), " ")
		for _, want := range []string{want, "isn't the raw volume any more", `looks like "qcow2"`} {
			if !strings.Contains(out, want) {
				t.Errorf("%q isn't in:\n%s", want, out)
			}
		}
		if is := length(); is != was {
			t.Errorf("after %v, the file has %s bytes, want %s", command, is, was)
		}
	}
	config(strings.Replace(size, "8", "9", 1))
	converted("Plan again", "apply", "-refresh=false")
	config(size)
	remedy := "\"terraform state rm\", and import it with the id \"" + id + "\""
	converted(remedy, "plan")
	converted(remedy, "apply")
	is("qcow2")
	becomes("raw")
	empty()
	becomes("qcow2")
	tf.Fail(t, "plan")
	if is := length(); is != short {
		t.Fatalf("the image has %s bytes now, and had %s", is, short)
	}
	tf.Run(t, "state", "rm", address)
	tf.Run(t, "import", address, id)
	empty()
	is("qcow2")

	// An image that is longer than the volume has the size and the format that the volume had.
	becomes("raw")
	tf.Run(t, "apply")
	l.Run(t, "kvm1", "qemu-io", "-f", "raw", "-c", "write -P 7 0 8M", file)
	becomes("qcow2")
	converted(remedy, "plan")
	tf.Run(t, "destroy", "-refresh=false")
	l.Run(t, "kvm1", "rmdir", "/var/lib/libvirt/"+name)
}
