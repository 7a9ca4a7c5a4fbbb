package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// reachedBy makes a VM on a host that only the URI leads to, changes it and removes it. virsh sees what it sees.
func reachedBy(t *testing.T, l *lab.Lab, own *lab.Host, uri string, virsh func(t testing.TB, args ...string) string) {
	t.Helper()
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	provider := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own, URI: uri}}}.String()
	tf.Config(t, provider+idleVM(l, name).String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	if state := strings.TrimSpace(virsh(t, "domstate", name)); state != "running" {
		t.Errorf("the VM is %q", state)
	}
	tf.Config(t, provider+idleVM(l, name).with(hcl{"labels": `{ app = "web" }`}).String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	if err := contains(virsh(t, "dumpxml", name), `value="web"`); err != nil {
		t.Error(err)
	}
	tf.Run(t, "destroy")
	if all := virsh(t, "list", "--all", "--name"); strings.Contains(all, name) {
		t.Errorf("the VM is still there: %s", all)
	}
}

// answersAt plans a VM on a host that only the URI leads to.
func answersAt(t *testing.T, l *lab.Lab, own *lab.Host, uri string) {
	t.Helper()
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own, URI: uri}}}.String()+
		idleVM(l, lab.Name(t)).String())
	expect(t, tf.Run(t, "plan"), "1 to add")
}

// virshOn is virsh on a host, as root there.
func virshOn(l *lab.Lab, h *lab.Host, options ...string) func(t testing.TB, args ...string) string {
	return func(t testing.TB, args ...string) string {
		t.Helper()
		return l.Virsh(t, h.Name, append(options, args...)...)
	}
}

// TestAccTransport_network: libvirtd is reached without SSH, where it listens on the network.
func TestAccTransport_network(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	authority := lab.NewAuthority(t)
	l.Listen(t, own, authority)
	l.StopSSH(t, own)
	client, stranger := authority.Client(t), lab.NewAuthority(t).Client(t)
	for name, uri := range map[string]string{
		"tcp": "qemu+tcp://" + own.Address + "/system",
		"tls": "qemu+tls://" + own.Address + "/system?pkipath=" + client,
	} {
		t.Run(name, func(t *testing.T) { reachedBy(t, l, own, uri, virshOn(l, own)) })
	}
	// libvirt's own default: without a transport, a host is reached by TLS.
	answersAt(t, l, own, "qemu://"+own.Address+":16514/system?pkipath="+client)
	refused := func(uri string, texts ...string) {
		t.Helper()
		tf := acctest.NewCLI(t)
		tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own, URI: uri}}}.String()+
			idleVM(l, lab.Name(t)).String())
		expect(t, tf.Fail(t, "plan"), append([]string{"Error: "}, texts...)...)
	}
	refused("qemu+tls://"+own.Address+"/system?pkipath="+stranger, own.Name, "certificate")
	refused("qemu+tls://"+own.Address+"/system?pkipath=/nowhere", own.Name, "/nowhere")
	refused("qemu+tcp://"+own.Address+":1/system", own.Name, "refused")
}

// TestAccTransport_poolMayBeBehind: without SSH only libvirt can tell which files a host has.
func TestAccTransport_poolMayBeBehind(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	l.Listen(t, own, nil)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const image, elsewhere = "/var/lib/libvirt/images/new.raw", "/var/lib/libvirt/elsewhere.raw"
	provider := acctest.Block{Lab: l, Hosts: []acctest.Host{
		{Of: own, URI: "qemu+tcp://" + own.Address + "/system"},
	}}.String()
	with := func(file string) string {
		disks := `{ root = { file = ` + quote(file) + `, format = "raw" } }`
		return provider + idleVM(l, name).with(hcl{"disks": disks}).String()
	}
	warning := "Warning: File not found on the host"
	tf.Config(t, with(elsewhere))
	if out := tf.Run(t, "plan"); strings.Contains(out, warning) {
		t.Errorf("that can't be known:\n%s", out)
	}
	tf.Config(t, with(image))
	l.Run(t, own.Name, "truncate", "-s", "1M", image)
	expect(t, tf.Run(t, "apply"), warning, image, "as it was when it was refreshed last", "1 added")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}

// TestAccTransport_session: the libvirt of an ordinary user is found wherever it listens, and started if need be.
func TestAccTransport_session(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	user := l.AddUser(t, own, "me")
	t.Run("starts it", func(t *testing.T) { reachedBy(t, l, own, user.SessionURI(), user.Virsh) })
	t.Run("without the helper", func(t *testing.T) {
		user.Virsh(t, "list") // The daemon runs.
		l.Run(t, own.Name, "mount", "--bind", "/dev/null", "/usr/bin/virt-ssh-helper")
		reachedBy(t, l, own, user.SessionURI(), user.Virsh)
	})
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own, URI: user.SessionURI() + "?mode=direct"}}}.String()+
		idleVM(l, lab.Name(t)).String())
	expect(t, tf.Fail(t, "plan"), "Error: ", own.Name, "leave mode out")
}

// TestAccTransport_sockets: the daemon is found at the socket of the modular daemons too, and at one that is named.
func TestAccTransport_sockets(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	const monolithic, modular, other = "/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock", "/run/libvirt/other"
	move := func(t *testing.T, to string) (back func()) {
		t.Helper()
		l.Run(t, own.Name, "mv", monolithic, to)
		return func() { l.Run(t, own.Name, "mv", to, monolithic) }
	}
	t.Run("modular", func(t *testing.T) {
		defer move(t, modular)()
		reachedBy(t, l, own, own.URI(), virshOn(l, own, "--connect", "qemu+unix:///system?socket="+modular))
		answersAt(t, l, own, own.URI()+"?mode=direct")
	})
	t.Run("named", func(t *testing.T) {
		defer move(t, other)()
		answersAt(t, l, own, own.URI()+"?socket="+other)
	})
	defer move(t, "/run/libvirt/hidden")()
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own}}}.String()+idleVM(l, lab.Name(t)).String())
	expect(t, tf.Fail(t, "plan"), own.Name, "No libvirt daemon answers", "libvirt-sock", "virtqemud-sock")
}
