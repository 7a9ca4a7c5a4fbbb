package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

const (
	// DirEnv names the environment variable that says where the lab is.
	DirEnv = "VIRTFLEET_LAB_DIR"
	// NetEnv names the environment variable with the second number of the lab's addresses, 10.<net>.0.0/16.
	NetEnv = "VIRTFLEET_LAB_NET"

	defaultDir = "/tmp/virtfleet-lab"
	defaultNet = 77

	// Inside every host the guest's kernel and initramfs have the same path, as migration needs.
	guestKernelPath = "/var/lib/libvirt/boot/lab-vmlinux"
	guestInitrdPath = "/var/lib/libvirt/boot/lab-initrd.img"

	// GuestCmdline is the guest's kernel command line: a console, and a boot without slow steps that no test needs.
	// Page table isolation flushes the TLB whenever the kernel is entered: before version 9.0, QEMU without KVM misses
	// writes to pages that the TLB still has for writable after they were copied, and a migrated guest lacks them.
	// That makes such a loss rare, not impossible: a guest whose kernel panics of it restarts, and doesn't use a whole
	// processor for the rest of its test, as a kernel that has panicked does.
	// A timer that is slow because its host is busy is no broken one, which the kernel would take it for and not boot.
	// The kernel's own tests of key derivation and probes, keys, PS/2 devices, and trace events with their names, which no
	// test uses, are a fifth of the boot. So are memory that is cleared twice, and code that is patched for a single
	// processor: QEMU without KVM translates patched code anew.
	// Before the kernel registers the first function that BPF programs may call, which is one of TCP's cubic, it parses
	// 4 MB of types. No guest has such programs: none is registered, and TCP uses reno.
	// With several processors, a guest of QEMU without KVM hangs in its boot now and then, on some machines. Its kernel
	// panics then, and so boots again. Once it has booted, it no longer panics of a hang.
	// Words may be added: noacpi, noagent, deny=<agent commands>, noshutdown, panic, dirty=<MiB>[@<MiB/s>], counter,
	// data, beat, hostname=<name>, seed, ipv6.
	GuestCmdline = kernelCmdline + " oops=panic softlockup_panic=1 watchdog_thresh=20 hung_task_panic=1 " +
		"initcall_blacklist=cubictcp_register,tcp_congestion_default,bpf_rstat_kfunc_init,bpf_key_sig_kfuncs_init," +
		"kfunc_init,bpf_prog_test_run_init,bpf_tcp_ca_kfunc_init"

	kernelCmdline = "console=ttyS0 quiet cryptomgr.notests pti=on panic=-1 no_timer_check noreplace-smp " +
		"init_on_alloc=0 initcall_blacklist=crypto_kdf108_init,init_kprobe_trace,load_system_certificate_list," +
		"platform_keyring_init,i8042_init,trace_eval_init,tracer_init_tracefs"

	// LANBridge is the bridge on every host that connects guests to one network which spans the hosts.
	LANBridge = "br-lab"

	storeName = "store"
	// maxDirLength keeps unix socket paths below the lab's directory within the kernel's 107 bytes.
	maxDirLength = 60
)

// ErrNotUp says that no lab runs at the place that was asked for.
var ErrNotUp = errors.New("the lab is not up")

// Config says where a lab is, and how many hosts it has.
type Config struct {
	// Dir holds all state of the lab. Empty: VIRTFLEET_LAB_DIR, else /tmp/virtfleet-lab.
	Dir string
	// Net is the second number of the lab's addresses. 0: VIRTFLEET_LAB_NET, else 77.
	Net int
	// Hosts is the number of hosts. The SSH server of the second forwards no stream to a socket: most tests that move a
	// VM move it there. The third and later run QEMU as the distribution does, without privileges.
	Hosts int
}

// Lab is a lab, running or about to.
type Lab struct {
	// Dir holds all state of the lab.
	Dir string `json:"dir"`
	// Net is the second number of its addresses.
	Net int `json:"net"`
	// Hosts are its libvirt hosts, in the order of their names.
	Hosts []*Host `json:"hosts"`
	// OnDisk says why the files of a temporary lab are on this machine's disk. Empty: they are in memory.
	OnDisk string `json:"on_disk,omitempty"`

	store *machine
}

// Host is one libvirt host of the lab.
type Host struct {
	// Name is the hostname: kvm1, kvm2, ...
	Name string `json:"name"`
	// Address is where its SSH server listens, port 22, and where migrations arrive.
	Address string `json:"address"`
	// HostUUID is what its libvirt calls itself.
	HostUUID string `json:"host_uuid"`
	// Unprivileged hosts run QEMU as the distribution's own user.
	Unprivileged bool `json:"unprivileged"`

	machine *machine
	// own says that one test has the host for itself.
	own bool
	// fresh says that libvirt and its policy are as the distribution installs them.
	fresh bool
	// withoutStreams says that its SSH server forwards no stream to a socket.
	withoutStreams bool
	// listens says that its libvirtd is reached over the network too.
	listens bool
}

// New describes a lab without starting or looking for it.
func New(cfg Config) (*Lab, error) {
	if cfg.Dir == "" {
		cfg.Dir = dirFromEnv()
	}
	if cfg.Net == 0 {
		net, err := netFromEnv()
		if err != nil {
			return nil, err
		}
		cfg.Net = net
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("finding the lab's directory: %w", err)
	}
	if len(dir) > maxDirLength {
		return nil, fmt.Errorf("the lab's directory %s is longer than %d bytes, too long for unix sockets: set %s",
			dir, maxDirLength, DirEnv)
	}
	if cfg.Net < 1 || cfg.Net > 254 {
		return nil, fmt.Errorf("the lab's network number is %d, it must be 1 to 254", cfg.Net)
	}
	l := &Lab{Dir: dir, Net: cfg.Net}
	for i := 1; i <= cfg.Hosts; i++ {
		h := l.newHost(i, i > 2)
		h.withoutStreams = i == 2
		l.Hosts = append(l.Hosts, h)
	}
	l.link()
	return l, nil
}

// newHost describes the host of a number: its name, address and UUID follow from it.
func (l *Lab) newHost(number int, unprivileged bool) *Host {
	h := &Host{
		Name:         fmt.Sprintf("kvm%d", number),
		Address:      fmt.Sprintf("10.%d.0.%d", l.Net, 10+number),
		HostUUID:     fmt.Sprintf("5f1c2b6e-0c7b-4a5d-9b1e-%06x%06x", l.Net, 10+number),
		Unprivileged: unprivileged,
	}
	h.machine = newMachine(l, h.Name, h.Address)
	return h
}

// NewTemporary describes a lab in a directory of its own, in memory if there is enough, with addresses that nothing
// here uses and no other lab gets.
func NewTemporary(ctx context.Context, hosts int) (*Lab, error) {
	dir, err := os.MkdirTemp("", "virtfleet-lab-")
	if err != nil {
		return nil, fmt.Errorf("creating the lab's directory: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the lab's directory: %w", err)
	}
	net, err := claimNet(ctx, dir)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	l, err := New(Config{Dir: dir, Net: net, Hosts: hosts})
	if err != nil {
		return nil, err
	}
	if err := l.intoMemory(); err != nil {
		return nil, errors.Join(err, l.Down(ctx))
	}
	return l, nil
}

// Load finds the lab at dir ("" as in Config). It returns ErrNotUp when there is none.
func Load(dir string) (*Lab, error) {
	if dir == "" {
		dir = dirFromEnv()
	}
	data, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w at %s: start it with \"make lab-up\"", ErrNotUp, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the lab's description: %w", err)
	}
	l := &Lab{}
	if err := json.Unmarshal(data, l); err != nil {
		return nil, fmt.Errorf("reading the lab's description: %w", err)
	}
	l.link()
	return l, nil
}

// save writes the description that Load reads. Its presence says that the lab came up completely.
func (l *Lab) save() error {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("describing the lab: %w", err)
	}
	return writeFile(filepath.Join(l.Dir, "lab.json"), string(data)+"\n", 0o644)
}

// link connects the description with the machines that it describes.
func (l *Lab) link() {
	l.store = newMachine(l, storeName, fmt.Sprintf("10.%d.0.2", l.Net))
	for _, h := range l.Hosts {
		h.machine = newMachine(l, h.Name, h.Address)
	}
}

// Host returns the host of that name, nil when there is none.
func (l *Lab) Host(name string) *Host {
	for _, h := range l.Hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// machines returns all machines of the lab.
func (l *Lab) machines() []*machine {
	all := []*machine{l.store}
	for _, h := range l.Hosts {
		all = append(all, h.machine)
	}
	return all
}

// URI is how the provider reaches the host.
func (h *Host) URI() string { return "qemu+ssh://root@" + h.Address + "/system" }

// SocketURI is how a virsh outside the host reaches it, without SSH.
func (h *Host) SocketURI() string {
	return "qemu+unix:///system?socket=" + h.machine.path("/run/libvirt/libvirt-sock")
}

// Path says where a file of the host that is private to it (below /etc/libvirt, /var/lib/libvirt, /var/log, /run) is
// found from outside.
func (h *Host) Path(inside string) string { return h.machine.path(inside) }

// KernelPath is the guest's kernel, the same on every host. Guests with a BIOS boot it.
func (l *Lab) KernelPath() string { return guestKernelPath }

// InitrdPath is the guest's initramfs, the same on every host.
func (l *Lab) InitrdPath() string { return guestInitrdPath }

// PrivateKeyFile is the SSH key that logs in as root on every host.
func (l *Lab) PrivateKeyFile() string { return filepath.Join(l.Dir, "ssh", "id_ed25519") }

// KnownHostsFile has the host keys of all hosts.
func (l *Lab) KnownHostsFile() string { return filepath.Join(l.Dir, "ssh", "known_hosts") }

// SSHConfigFile lets ssh reach the hosts by name.
func (l *Lab) SSHConfigFile() string { return filepath.Join(l.Dir, "ssh", "config") }

func dirFromEnv() string {
	if dir := os.Getenv(DirEnv); dir != "" {
		return dir
	}
	return defaultDir
}

func netFromEnv() (int, error) {
	value := os.Getenv(NetEnv)
	if value == "" {
		return defaultNet, nil
	}
	net, err := strconv.Atoi(value)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", NetEnv, err)
	}
	return net, nil
}
