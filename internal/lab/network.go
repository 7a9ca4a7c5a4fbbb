package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
)

// The lab has two networks: one on which the hosts have their addresses (SSH, migrations, storage), and one for the
// guests, to which every host has a bridge. This machine has an address on the first only.

func (l *Lab) hostBridge() string { return fmt.Sprintf("vfl%d", l.Net) }

func (l *Lab) lanBridge() string { return fmt.Sprintf("vfl%d-lan", l.Net) }

func (l *Lab) gateway() string { return fmt.Sprintf("10.%d.0.1", l.Net) }

func (l *Lab) lanPrefix() string { return fmt.Sprintf("10.%d.1", l.Net) }

// link names are limited to 15 bytes: vfl254-kvm3, vfl254-kvm3-lan.
func (m *machine) hostLink() string { return m.lab.hostBridge() + "-" + m.name }

func (m *machine) lanLink() string {
	return fmt.Sprintf("vfl%d-%sl", m.lab.Net, m.name)
}

// createNetworks makes the bridges, where they aren't there.
func (l *Lab) createNetworks(ctx context.Context) error {
	user, err := netUser(l.Net)
	if err != nil {
		return err
	}
	owner := linkOwner(l.hostBridge())
	if user != "" && user != l.hostBridge() || owner != "" && owner != l.Dir {
		return fmt.Errorf("the lab's network 10.%d.0.0/16 is in use by %s%s: set %s to another number",
			l.Net, user, owner, NetEnv)
	}
	for _, bridge := range []string{l.hostBridge(), l.lanBridge()} {
		if linkExists(bridge) {
			continue
		}
		if err := createBridge(ctx, bridge, l.Dir); err != nil {
			return err
		}
	}
	if err := run(ctx, "ip", "addr", "replace", l.gateway()+"/24", "dev", l.hostBridge()); err != nil {
		return fmt.Errorf("giving the lab's bridge its address: %w", err)
	}
	return nil
}

// createBridge makes a bridge that carries the name of its owner, the lab's directory, as all its devices do.
func createBridge(ctx context.Context, name, owner string) error {
	if err := run(ctx, "ip", "link", "add", name, "type", "bridge"); err != nil {
		return fmt.Errorf("creating the lab's bridge (root and the bridge driver are needed): %w", err)
	}
	if err := run(ctx, "ip", "link", "set", name, "alias", owner, "addrgenmode", "none", "up"); err != nil {
		return fmt.Errorf("creating the lab's bridge: %w", err)
	}
	return nil
}

// linkOwner returns the directory of the lab that made a bridge, or "".
func linkOwner(name string) string {
	alias, err := os.ReadFile("/sys/class/net/" + name + "/ifalias")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(alias))
}

// claimNet finds a network that no device of this machine uses, and makes its bridge: only one can create it, so labs
// that start at the same moment get different ones.
func claimNet(ctx context.Context, owner string) (int, error) {
	var last error
	for number := defaultNet + 1; number < 255; number++ {
		user, err := netUser(number)
		if err != nil {
			return 0, err
		}
		l := Lab{Net: number}
		if user != "" || linkExists(l.hostBridge()) {
			continue
		}
		if last = createBridge(ctx, l.hostBridge(), owner); last == nil {
			return number, nil
		}
		if !linkExists(l.hostBridge()) {
			return 0, last
		}
	}
	return 0, errors.Join(errors.New("no network from 10.78.0.0/16 to 10.254.0.0/16 is free for a lab"), last)
}

// netUser returns the name of the device that has an address in the network, or "".
func netUser(number int) (string, error) {
	links, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("listing network devices: %w", err)
	}
	prefix := fmt.Sprintf("10.%d.", number)
	for _, link := range links {
		addrs, err := link.Addrs()
		if err != nil {
			continue
		}
		for _, addr := range addrs {
			if strings.HasPrefix(addr.String(), prefix) {
				return link.Name, nil
			}
		}
	}
	return "", nil
}

// connect gives a running machine its two network devices.
func (m *machine) connect(ctx context.Context) error {
	pid, err := m.pid()
	if err != nil {
		return err
	}
	var outside strings.Builder
	for i, pair := range []struct{ outside, inside, bridge string }{
		{m.hostLink(), "eth0", m.lab.hostBridge()},
		{m.lanLink(), "eth1", m.lab.lanBridge()},
	} {
		// A device that a machine left behind goes a little later than the machine.
		if err := deleteLink(ctx, pair.outside); err != nil {
			return err
		}
		// A host that is booted again has the same MAC address as before, so that its neighbours still know it.
		fmt.Fprintf(&outside, "link add %[1]s type veth peer name %[2]s address %[3]s netns %[4]d\n"+
			"link set %[1]s alias %[5]q master %[6]s addrgenmode none up\n",
			pair.outside, pair.inside, m.mac(i), pid, m.lab.Dir, pair.bridge)
	}
	inside := fmt.Sprintf(`link set eth0 addrgenmode none up
addr add %[1]s/24 dev eth0
route add default via %[2]s
link add %[3]s type bridge
link set eth1 master %[3]s addrgenmode none up
link set %[3]s addrgenmode none up
`, m.address, m.lab.gateway(), LANBridge)
	// One process for all steps: a machine's start is made of such short commands.
	cmd := exec.CommandContext(ctx, "ip", "-batch", "-")
	cmd.Env = machineEnv()
	killGroup(cmd)
	cmd.Stdin = strings.NewReader(outside.String())
	if _, err := capture(cmd); err != nil {
		return fmt.Errorf("connecting %s to the network: %w", m.name, err)
	}
	if cmd, err = m.command(ctx, "ip", "-batch", "-"); err != nil {
		return err
	}
	cmd.Stdin = strings.NewReader(inside)
	if _, err := capture(cmd); err != nil {
		return fmt.Errorf("connecting %s to the network: %w", m.name, err)
	}
	return nil
}

// mac is a locally administered address that follows from the machine's own address.
func (m *machine) mac(device int) string {
	ip := net.ParseIP(m.address).To4()
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", device, ip[0], ip[1], ip[2], ip[3])
}

// deleteNetworks removes every network device that carries the lab's name, whatever its number.
func (l *Lab) deleteNetworks(ctx context.Context) error {
	links, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("listing network devices: %w", err)
	}
	for _, link := range links {
		if linkOwner(link.Name) != l.Dir {
			continue
		}
		if err := deleteLink(ctx, link.Name); err != nil {
			return err
		}
	}
	return nil
}

func deleteLink(ctx context.Context, name string) error {
	if !linkExists(name) {
		return nil
	}
	if err := run(ctx, "ip", "link", "del", name); err != nil && linkExists(name) {
		return fmt.Errorf("removing network device %s: %w", name, err)
	}
	return nil
}

func linkExists(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}
