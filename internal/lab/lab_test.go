package lab

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const domainXML = `<domain type='qemu'>
  <name>%[1]s</name>
  <memory unit='MiB'>128</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>` + guestKernelPath + `</kernel>
    <initrd>` + guestInitrdPath + `</initrd>
    <cmdline>` + GuestCmdline + ` %[2]s</cmdline>
  </os>
  <features><acpi/></features>
  <on_reboot>restart</on_reboot>
  <devices>
    <serial type='file'><source path='/var/log/libvirt/qemu/%[1]s.console'/></serial>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    %[3]s
  </devices>
</domain>
`

// startGuest defines and starts a guest and waits until its agent answers, or, without an agent, until it is up.
func startGuest(t *testing.T, l *Lab, host, words, devices string) string {
	t.Helper()
	name := Name(t)
	l.RemoveDomain(t, name)
	l.Define(t, host, fmt.Sprintf(domainXML, name, words, devices))
	started := time.Now()
	l.Virsh(t, host, "start", name)
	Await(t, "guest "+name+" to come up", func() bool {
		if strings.Contains(words, "noagent") {
			console, err := os.ReadFile(l.Host(host).Path(ConsoleLog(name)))
			return err == nil && strings.Contains(string(console), "is up")
		}
		_, err := l.TryVirsh(t, host, "qemu-agent-command", name, `{"execute":"guest-ping"}`)
		return err == nil
	})
	t.Logf("guest %s was up after %.1f s", name, time.Since(started).Seconds())
	return name
}

func TestGuest_shutsDownWhenItIsAsked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, words, mode string
		want              bool
	}{
		{"by ACPI", "noagent", "acpi", true},
		{"by its agent", "noacpi", "agent", true},
		{"not by ACPI when it ignores that", "noacpi", "acpi", false},
		{"not by its agent when it ignores that", "noacpi noshutdown", "agent", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := Open(t)
			name := startGuest(t, l, "kvm1", test.words, "")
			// An agent doesn't answer this request: libvirt waits until the guest is off, for a minute if need be.
			patience := stepTimeout
			if !test.want {
				patience = 3 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, _ = l.Host("kvm1").Virsh(ctx, "shutdown", "--mode", test.mode, name)
			off := func() bool { return strings.Contains(l.Virsh(t, "kvm1", "domstate", name), "shut off") }
			if test.want {
				Await(t, "the guest to shut down", off)
				return
			}
			<-ctx.Done()
			if off() {
				t.Error("the guest shut down, though it should ignore the request")
			}
		})
	}
}

func TestGuest_migratesWithSharedDisk(t *testing.T) {
	t.Parallel()
	l := Open(t)
	export := l.NBD(t, Name(t), 64<<20)
	disk := fmt.Sprintf(`<disk type='network' device='disk'><driver name='qemu' type='raw' cache='none'/>
<source protocol='nbd' name='%s'><host name='%s' port='%d'/></source><target dev='vda' bus='virtio'/></disk>
<interface type='bridge'><source bridge='%s'/><model type='virtio'/></interface>`,
		export.Name, export.Host, export.Port, LANBridge)
	name := startGuest(t, l, "kvm1", "counter", disk)
	address := func(host string) string {
		return l.Virsh(t, host, "domifaddr", name, "--source", "agent", "--interface", "eth0")
	}
	Await(t, "the guest to get an address", func() bool {
		return strings.Contains(address("kvm1"), l.lanPrefix())
	})
	if err := l.Host("kvm1").Migrate(t.Context(), name, l.Host("kvm2")); err != nil {
		t.Fatal(err)
	}
	l.AwaitAgent(t, "kvm2", name) // Its host hasn't heard from it yet, and gives it no more than five seconds.
	if before, after := l.Virsh(t, "kvm2", "domstate", name), address("kvm2"); !strings.Contains(before, "running") ||
		!strings.Contains(after, l.lanPrefix()) {
		t.Errorf("after the migration the guest is %q with the address %q", before, after)
	}
}

func TestGuest_runsUnprivileged(t *testing.T) {
	t.Parallel()
	l := Open(t)
	image := l.Image(t, "kvm3", Name(t)+".qcow2", "qcow2", 8<<20)
	startGuest(t, l, "kvm3", "", `<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='`+image+
		`'/><target dev='vda' bus='virtio'/></disk>
<interface type='network'><source network='default'/><model type='virtio'/></interface>`)
	if user := l.Run(t, "kvm3", "ps", "-C", "qemu-system-x86_64", "-o", "user="); !strings.Contains(user, "libvirt") {
		t.Errorf("QEMU on kvm3 runs as %q, want the distribution's user", user)
	}
}

func TestSecondHost_forwardsNoStreams(t *testing.T) {
	t.Parallel()
	l := Open(t)
	for _, h := range l.Hosts {
		settings := l.Run(t, h.Name, "/usr/sbin/sshd", "-T")
		if refuses := strings.Contains(settings, "\nallowstreamlocalforwarding remote\n"); refuses != (h.Name == "kvm2") {
			t.Errorf("%s refuses to forward streams: %t", h.Name, refuses)
		}
	}
}

func TestStartHost_survivesEverything(t *testing.T) {
	t.Parallel()
	l := Open(t)
	h := l.StartHost(t)
	l.Define(t, h.Name, fmt.Sprintf(domainXML, "persistent", "", ""))
	ssh := func(seconds int) error {
		args := []string{"-F", l.SSHConfigFile(), "-o", fmt.Sprintf("ConnectTimeout=%d", seconds), h.Address, "true"}
		return exec.CommandContext(t.Context(), "ssh", args...).Run()
	}
	if err := ssh(60); err != nil {
		t.Fatalf("SSH to a fresh host: %v", err)
	}
	for name, fault := range map[string]func(testing.TB, *Host) func(){
		"cut off": l.Cut, "without SSH": l.StopSSH, "powered off": l.PowerOff,
	} {
		undo := fault(t, h)
		if err := ssh(1); err == nil {
			t.Errorf("the host answers while it is %s", name)
		}
		undo()
		if err := ssh(60); err != nil {
			t.Errorf("the host doesn't answer any more after it was %s: %v", name, err)
		}
	}
	restart := l.KillLibvirtd(t, h)
	if _, err := l.TryVirsh(t, h.Name, "list"); err == nil {
		t.Error("libvirtd answers while it is killed")
	}
	restart()
	if list := l.Virsh(t, h.Name, "list", "--all", "--name"); strings.TrimSpace(list) != "persistent" {
		t.Errorf("after all that the host has the domains %q", list)
	}
}

// TestStartFreshHost_asksPolkit: whether an account may use libvirt is decided as on hosts of the distribution.
func TestStartFreshHost_asksPolkit(t *testing.T) {
	t.Parallel()
	l := Open(t)
	h := l.StartFreshHost(t)
	list := func(u User) (string, error) {
		return h.Run(t.Context(), "setpriv", u.args("--connect", "qemu:///system", "pool-list", "--all")...)
	}
	if said, err := list(l.AddUser(t, h, "member", "libvirt")); err != nil || strings.Contains(said, "default") {
		t.Errorf("a member of the group libvirt sees %q (%v)", said, err)
	}
	if said, err := list(l.AddUser(t, h, "other")); err == nil || !strings.Contains(err.Error(), "authentication") {
		t.Errorf("another account sees %q (%v)", said, err)
	}
	if failed := l.Run(t, h.Name, "systemctl", "--failed", "--no-legend"); failed != "" {
		t.Errorf("units of its systemd failed:\n%s", failed)
	}
}

func TestDelayProxy_delaysWithoutLimitingBandwidth(t *testing.T) {
	t.Parallel()
	l := Open(t)
	const roundTrip = 200 * time.Millisecond
	proxy := l.DelayProxy(t, "kvm1", roundTrip)
	started := time.Now()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", proxy.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	banner := make([]byte, len("SSH-2.0-"))
	if _, err := io.ReadFull(conn, banner); err != nil || string(banner) != "SSH-2.0-" {
		t.Fatalf("the proxy passed on %q (%v), want the banner of an SSH server", banner, err)
	}
	if took := time.Since(started); took < roundTrip/2 {
		t.Errorf("the banner took %v, less than half the round trip", took)
	}
	known, err := os.ReadFile(proxy.KnownHostsFile)
	if err != nil || !strings.Contains(string(known), fmt.Sprintf("[%s]:%d", proxy.Host, proxy.Port)) {
		t.Errorf("the proxy's known_hosts (%v) doesn't know it:\n%s", err, known)
	}
}

// TestProxy_RoundTrips: the greeting, which the server sends unasked, is no round trip. What the server says once it
// knows the client is one, however many pieces it is asked in.
func TestProxy_RoundTrips(t *testing.T) {
	t.Parallel()
	l := Open(t)
	proxy := l.DelayProxy(t, "kvm1", 100*time.Millisecond)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", proxy.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	if _, err := in.ReadString('\n'); err != nil || proxy.RoundTrips() != 0 {
		t.Fatalf("%d round trips to the server's greeting (%v)", proxy.RoundTrips(), err)
	}
	for _, part := range []string{"SSH-2.0-", "test\r\n"} {
		if _, err := io.WriteString(conn, part); err != nil {
			t.Fatal(err)
		}
	}
	// The key exchange begins with the sizes of the first packet and of its padding, and its number, 20.
	head := make([]byte, 6)
	if _, err := io.ReadFull(in, head); err != nil || head[5] != 20 || proxy.RoundTrips() != 1 {
		t.Errorf("%d round trips to % x (%v), want 1 to the begin of the key exchange", proxy.RoundTrips(), head, err)
	}
}

func TestDefine_definesManyQuickly(t *testing.T) {
	t.Parallel()
	l := Open(t)
	prefix := Name(t)
	xmls := make([]string, 50)
	for i := range xmls {
		xmls[i] = fmt.Sprintf(domainXML, fmt.Sprintf("%s-%d", prefix, i), "", "")
	}
	l.Define(t, "kvm2", xmls...)
	if got := strings.Count(l.Virsh(t, "kvm2", "list", "--all", "--name"), prefix); got != len(xmls) {
		t.Errorf("%d domains are defined, want %d", got, len(xmls))
	}
}

func TestNew_refusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"a directory too long for sockets": {Dir: "/" + strings.Repeat("x", maxDirLength)},
		"a network out of range":           {Dir: "/tmp/x", Net: 255},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("New accepts %s", name)
		}
	}
}

func TestLoad_saysHowToStartTheLab(t *testing.T) {
	t.Parallel()
	_, err := Load(filepath.Join(t.TempDir(), "none"))
	if err == nil || !strings.Contains(err.Error(), "make lab-up") {
		t.Errorf("Load of nothing says %v", err)
	}
}

func TestDown_leavesNothing(t *testing.T) {
	t.Parallel()
	Open(t)
	for name, patience := range map[string]time.Duration{
		"of a lab that is up":             stepTimeout,
		"of one that came up by a little": 700 * time.Millisecond,
		"of one that came up by half":     1500 * time.Millisecond,
	} {
		l, err := NewTemporary(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := l.Up(ctx); err != nil && patience == stepTimeout {
			t.Errorf("the lab doesn't come up: %v", err)
		}
		if patience == stepTimeout {
			if _, err := l.Hosts[0].Virsh(ctx, "list"); err != nil { // The virsh that answers is kept.
				t.Error(err)
			}
		}
		cancel()
		if kept, err := l.KeepProgram("/bin/echo"); err != nil {
			t.Errorf("the lab keeps no program: %v", err)
		} else if out, err := exec.CommandContext(t.Context(), kept, "kept").Output(); err != nil || string(out) != "kept\n" {
			t.Errorf("a program that the lab keeps says %q: %v", out, err)
		}
		if err := l.Down(t.Context()); err != nil {
			t.Errorf("Down %s: %v", name, err)
		}
		if residue := l.Residue(); len(residue) > 0 {
			t.Errorf("this is left %s:\n%s", name, strings.Join(residue, "\n"))
		}
	}
}

// What is printed for a person can be typed as it is.
func TestUsage_canBeTyped(t *testing.T) {
	t.Parallel()
	l := Open(t)
	var said strings.Builder
	if err := l.Usage(&said); err != nil {
		t.Fatal(err)
	}
	typed := regexp.MustCompile(`(?m)^(?:SSH|or):\s+(.*)$`).FindAllStringSubmatch(said.String(), -1)
	if len(typed) != 1+len(l.Hosts) {
		t.Errorf("%d commands in:\n%s", len(typed), said.String())
	}
	for i, command := range typed {
		host := l.Hosts[max(i-1, 0)].Name
		asked := command[1] + " hostname" // ssh and virsh both know it.
		out, err := exec.CommandContext(t.Context(), "sh", "-c", asked).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != host {
			t.Errorf("%s: %v, %s; want %s", asked, err, out, host)
		}
	}
}

// TestStartHostWithCgroups_limitsGuests: a guest is limited on a host with cgroups, after its libvirtd was started
// again, too; nothing is left of them.
func TestStartHostWithCgroups_limitsGuests(t *testing.T) {
	t.Parallel()
	l := Open(t)
	t.Run("host", func(t *testing.T) {
		h := l.StartHostWithCgroups(t)
		name := startGuest(t, l, h.Name, "", "")
		l.Virsh(t, h.Name, "schedinfo", name, "--live", "cpu_shares=512")
		l.KillLibvirtd(t, h)()
		l.Virsh(t, h.Name, "memtune", name, "--live", "--hard-limit", "1048576")
		groups, err := l.cgroups()
		if err != nil || !slices.ContainsFunc(groups, func(group string) bool {
			_, err := os.Stat(filepath.Join(group, "machine"))
			return err == nil
		}) {
			t.Errorf("none of the host's cgroups %q has the guests': %v", groups, err)
		}
		for setting, want := range map[string]string{
			"cpu/cpu.shares cpu.weight": "512", "memory/memory.limit_in_bytes memory.max": "1073741824",
		} {
			controller, files, _ := strings.Cut(setting, "/")
			group, version, err := h.GuestCgroup(t.Context(), name, controller)
			if err != nil {
				t.Fatal(err)
			}
			file := strings.Fields(files)[version-1]
			if got := strings.TrimSpace(l.Run(t, h.Name, "cat", group+"/"+file)); got != want {
				t.Errorf("%s in %s is %s, want %s", file, group, got, want)
			}
		}
		l.PowerOff(t, h)()
	})
	if groups, err := l.cgroups(); len(groups) > 0 || err != nil {
		t.Errorf("cgroups %q are left: %v", groups, err)
	}
}
