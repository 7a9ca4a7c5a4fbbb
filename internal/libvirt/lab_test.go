package libvirt

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// labHost opens one of the lab's shared hosts through a relay, as over SSH but without the SSH.
func labHost(t testing.TB) (*Host, *lab.Lab, *lab.Host) {
	t.Helper()
	l := lab.Open(t)
	machine := l.Hosts[0]
	return open(t, Config{Name: machine.Name, URI: machine.URI(), Dial: linkTo(machine).Dial}), l, machine
}

func linkTo(machine *lab.Host) *link { return &link{socket: machine.Path} }

// agentChannel connects the guest agent.
const agentChannel = `<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>`

// guestXML is a guest of the lab. devices are added to it.
func guestXML(l *lab.Lab, name, words, devices string) string {
	return fmt.Sprintf(`<domain type='qemu'>
  <name>%s</name>
  <memory unit='MiB'>128</memory>
  <vcpu current='1'>2</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>%s</kernel>
    <initrd>%s</initrd>
    <cmdline>%s %s</cmdline>
  </os>
  <features><acpi/></features>
  <devices>
    <serial type='file'><source path='%s'/></serial>
    <controller type='pci' index='0' model='pcie-root'/>
    <controller type='pci' model='pcie-root-port'/>
    <controller type='pci' model='pcie-root-port'/>
    <controller type='pci' model='pcie-root-port'/>
    <controller type='pci' model='pcie-root-port'/>
    <controller type='pci' model='pcie-root-port'/>
    <controller type='pci' model='pcie-root-port'/>
    %s
    %s
  </devices>
</domain>`, name, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline, words, lab.ConsoleLog(name), agentChannel, devices)
}

// defineGuest defines a guest with these words on its kernel command line, until the test ends.
func defineGuest(t testing.TB, h *Host, l *lab.Lab, words, devices string) (uuid, name string) {
	t.Helper()
	name = lab.Name(t)
	l.RemoveDomain(t, name)
	uuid, err := h.DefineDomain(t.Context(), guestXML(l, name, words, devices))
	must(t, err)
	return uuid, name
}

// runningVM runs a guest until the test ends, and doesn't wait until it has booted, which is expensive.
func runningVM(t testing.TB, h *Host, l *lab.Lab, devices string) (uuid string) {
	t.Helper()
	uuid, _ = defineGuest(t, h, l, "", devices)
	must(t, h.StartDomain(t.Context(), uuid))
	return uuid
}

// startGuest runs a guest until the test ends, and waits for its agent.
func startGuest(t testing.TB, h *Host, l *lab.Lab, devices string) (uuid, name string) {
	t.Helper()
	return bootGuest(t, h, l, "", devices)
}

// bootGuest runs a guest with these words on its kernel command line until the test ends, and waits for its agent.
func bootGuest(t testing.TB, h *Host, l *lab.Lab, words, devices string) (uuid, name string) {
	t.Helper()
	uuid, name = defineGuest(t, h, l, words, devices)
	events, err := h.Subscribe(t.Context(), uuid)
	must(t, err)
	must(t, h.StartDomain(t.Context(), uuid))
	awaitEvent(t, events, func(e Event) bool { return e.Kind == EventAgent && e.Detail == "Connected" })
	l.AwaitAgent(t, h.Name(), name) // Who hasn't heard from it yet gives it no more than five seconds.
	return uuid, name
}

func awaitEvent(t testing.TB, events <-chan Event, match func(Event) bool) Event {
	t.Helper()
	timeout := time.After(patience)
	var seen []Event
	for {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatalf("the subscription ended; seen: %v", seen)
			}
			if match(e) {
				return e
			}
			seen = append(seen, e)
		case <-timeout:
			t.Fatalf("waited in vain for an event; seen: %v", seen)
		}
	}
}

func TestHost_isReachedThroughADialFunc(t *testing.T) {
	t.Parallel()
	h, _, machine := labHost(t)
	info, err := h.Info(t.Context())
	must(t, err)
	if info.UUID != machine.HostUUID || info.Hostname != machine.Name || info.Driver != "QEMU" ||
		info.Arch != "x86_64" || !info.HypervisorVersion.AtLeast(5, 0, 0) || info.URI != machine.URI() {
		t.Errorf("got %s", cmp.Diff(HostInfo{}, *info))
	}
	machines := map[string]bool{}
	for _, g := range info.Guests {
		for _, m := range g.MachineTypes {
			machines[g.Arch+" "+m] = true
		}
	}
	if !machines["x86_64 q35"] || !machines["x86_64 pc"] {
		t.Errorf("got machine types %v", machines)
	}
	free, err := h.freeMemory(t.Context())
	if err != nil || free == 0 || free > info.MemoryBytes {
		t.Errorf("got %d bytes free of %d, %v", free, info.MemoryBytes, err)
	}
}

func TestDomains_areReadFromALibvirtHost(t *testing.T) {
	t.Parallel()
	h, l, _ := labHost(t)
	ctx := t.Context()
	const vnc = `<graphics type='vnc' port='-1' autoport='yes' passwd='secret12'/>`
	uuid, name := startGuest(t, h, l, vnc)
	must(t, h.SetAutostart(ctx, uuid, true))

	domains, err := h.Domains(ctx)
	must(t, err)
	one, err := h.Domain(ctx, uuid)
	must(t, err)
	found := false
	for _, d := range domains {
		if d.UUID == uuid {
			found = true
			if diff := cmp.Diff(*one, d); diff != "" {
				t.Errorf("Domains differs from Domain: %s", diff)
			}
		}
	}
	if !found {
		t.Fatal("the guest isn't among the domains")
	}
	if one.Name != name || one.State != Running || one.Reason != "Booted" || !one.Persistent || !one.Autostart ||
		one.ManagedSave || !one.Active() {
		t.Errorf("got %s: %s (%s), persistent %t, autostart %t, managed save %t",
			one.Name, one.State, one.Reason, one.Persistent, one.Autostart, one.ManagedSave)
	}
	if strings.Contains(one.PersistentXML+one.LiveXML, "secret12") {
		t.Error("a definition that is only read has its password")
	}
	complete, err := h.CompleteXML(ctx, uuid)
	must(t, err)
	if !strings.Contains(complete, "secret12") {
		t.Errorf("a definition to be defined again must have its password:\n%s", complete)
	}
	again, err := h.DefineDomain(ctx, complete)
	must(t, err)
	after, err := h.CompleteXML(ctx, uuid)
	must(t, err)
	if diff := cmp.Diff(complete, after); again != uuid || diff != "" {
		t.Errorf("defining what was read changed it: %s", diff)
	}
}

func TestDomains_leavesOutWhatVanishes(t *testing.T) {
	t.Parallel()
	h, l, machine := labHost(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	stop := make(chan struct{})
	ctx := t.Context()
	var churn sync.WaitGroup
	churn.Go(func() {
		other := open(t, Config{Name: machine.Name, URI: machine.URI(), Dial: linkTo(machine).Dial})
		for {
			select {
			case <-stop:
				return
			default:
			}
			uuid, err := other.DefineDomain(ctx, guestXML(l, name, "noagent", ""))
			if err == nil {
				err = other.UndefineDomain(ctx, uuid)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 30 {
		if _, err := h.Domains(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	churn.Wait()
}

func TestDomain_onRealQEMU(t *testing.T) {
	t.Parallel()
	h, l, _ := labHost(t)
	ctx := t.Context()
	uuid, name := startGuest(t, h, l, "")
	events, err := h.Subscribe(ctx, uuid)
	must(t, err)

	want(t, h.StartDomain(ctx, uuid), ErrOperationInvalid)
	want(t, h.RenameDomain(ctx, uuid, name+"-2"), ErrOperationInvalid)
	want(t, h.SetVcpus(ctx, uuid, 5, AffectLive), ErrInvalid)
	must(t, h.SetVcpus(ctx, uuid, 2, AffectLive|AffectConfig))
	must(t, h.SetMemory(ctx, uuid, 96<<20, AffectConfig))
	must(t, h.SetMetadata(ctx, uuid, "virtfleet", "urn:virtfleet:1", "<vm/>", AffectLive|AffectConfig))
	// The lab's hosts have no cgroups, by which a running domain is limited.
	before := map[string]map[string]string{
		"/dev/zero": {"read_bytes_sec": "1000", "write_iops_sec": "7"}, "/dev/null": {"write_bytes_sec": "5"},
	}
	must(t, h.SetBlkioDevices(ctx, uuid, before, nil, AffectConfig))
	must(t, h.SetBlkioDevices(ctx, uuid, map[string]map[string]string{
		"/dev/zero": {"weight": "300", "read_bytes_sec": "2000"}, "/dev/full": {"read_iops_sec": "9"},
	}, before, AffectConfig))
	must(t, h.SuspendDomain(ctx, uuid))
	awaitEvent(t, events, func(e Event) bool { return e.Detail == "Suspended" && e.Reason == "Paused" })
	must(t, h.ResumeDomain(ctx, uuid))

	d, err := h.Domain(ctx, uuid)
	must(t, err)
	devices := regexp.MustCompile(`(?s)<blkiotune>.*</blkiotune>`).FindString(d.PersistentXML)
	if got, want := strings.Join(strings.Fields(devices), ""), "<blkiotune><device><path>/dev/zero</path>"+
		"<weight>300</weight><read_bytes_sec>2000</read_bytes_sec></device><device><path>/dev/full</path>"+
		"<read_iops_sec>9</read_iops_sec></device></blkiotune>"; got != want {
		t.Errorf("the devices are %s", devices)
	}
	for document, words := range map[string][]string{
		d.LiveXML:       {"<vcpu placement='static'>2</vcpu>", "urn:virtfleet:1"},
		d.PersistentXML: {"<vcpu placement='static'>2</vcpu>", "urn:virtfleet:1", "<currentMemory unit='KiB'>98304<"},
	} {
		for _, word := range words {
			if !strings.Contains(document, word) {
				t.Errorf("no %s in %s", word, document)
			}
		}
	}

	// The agent doesn't answer this request, and a busy guest takes longer to end than libvirt waits for it.
	if err := h.ShutdownDomain(ctx, uuid, ShutdownAgent); err != nil && !errors.Is(err, ErrAgentUnavailable) {
		t.Fatal(err)
	}
	awaitEvent(t, events, func(e Event) bool { return e.Detail == "Stopped" && e.Reason == "Shutdown" })
	want(t, h.ShutdownDomain(ctx, uuid, ShutdownACPI), ErrOperationInvalid)
	must(t, h.UndefineDomain(ctx, uuid))
	_, err = h.Domain(ctx, uuid)
	want(t, err, ErrNotFound)
}

func TestDefineDomain_tellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	h, l, _ := labHost(t)
	ctx := t.Context()
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	_, err := h.DefineDomain(ctx, guestXML(l, name, "", ""))
	must(t, err)
	for what, test := range map[string]struct {
		xml  string
		kind error
	}{
		"name taken": {
			strings.Replace(guestXML(l, name, "", ""), "<memory", "<uuid>"+uuidOf(77)+"</uuid><memory", 1), ErrExists,
		},
		"schema":  {guestXML(l, name+"-x", "", "<nonsense/>"), ErrInvalid},
		"machine": {strings.Replace(guestXML(l, name+"-x", "", ""), "'q35'", "'z80'", 1), ErrUnsupported},
		"alias twice": {guestXML(l, name+"-x", "",
			"<disk type='file' device='cdrom'><target dev='sda' bus='sata'/><alias name='ua-x'/></disk>"+
				"<disk type='file' device='cdrom'><target dev='sdb' bus='sata'/><alias name='ua-x'/></disk>"), ErrUnsupported},
	} {
		_, err := h.DefineDomain(ctx, test.xml)
		if !errors.Is(err, test.kind) {
			t.Errorf("%s: got error %v, want one that is %q", what, err, test.kind)
		}
	}
}

func TestHost_isReachedThroughLibvirtsOwnTransport(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := open(t, Config{Name: l.Hosts[0].Name, URI: l.Hosts[0].SocketURI()})
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	events, err := h.Subscribe(t.Context(), "")
	must(t, err)
	uuid, err := h.DefineDomain(t.Context(), guestXML(l, name, "", ""))
	must(t, err)
	awaitEvent(t, events, func(e Event) bool { return e.UUID == uuid && e.Detail == "Defined" })
	must(t, h.UndefineDomain(t.Context(), uuid))
	info, err := h.Info(t.Context())
	must(t, err)
	if info.UUID != l.Hosts[0].HostUUID {
		t.Errorf("reached host %s", info.UUID)
	}
}

// Close waits for a daemon that hangs for some seconds, where its connections can't be cut.
func TestClose_waitsForADaemonThatIsSlow(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	h := open(t, Config{URI: own.SocketURI()})
	_, err := h.Info(t.Context())
	must(t, err)
	l.Run(t, own.Name, "sh", "-c", "kill -STOP $(cat /run/libvirtd.pid)")
	woken := make(chan error, 1)
	time.AfterFunc(3*time.Second, func() {
		_, err := own.Run(t.Context(), "sh", "-c", "kill -CONT $(cat /run/libvirtd.pid)")
		woken <- err
	})
	must(t, h.Close())
	must(t, <-woken)
}
