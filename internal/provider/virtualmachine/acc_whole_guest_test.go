package virtualmachine_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// runOverSSH logs in to a guest over SSH, from a computer on its network, as soon as it lets that user in. It returns
// what its shell printed.
func runOverSSH(t *testing.T, l *lab.Lab, user, ip, script string) (said string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for ; ctx.Err() == nil; <-tick.C {
		cmd, err := l.OnLAN(ctx, "ssh", "-F", "none", "-i", l.PrivateKeyFile(), "-o", "IdentitiesOnly=yes",
			"-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new", "-o", "ConnectTimeout=60",
			"-o", "UserKnownHostsFile="+filepath.Join(t.TempDir(), "known_hosts"), user+"@"+ip, script)
		if err != nil {
			return "", err
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err = cmd.Run(); err == nil {
			return out.String(), nil
		}
		said = fmt.Sprintf("%v: %s", err, out.String())
	}
	return "", fmt.Errorf("no login to the guest: %s", said)
}

// TestAccVirtualMachine_cloudGuest: Debian with cloud-init does at its first boot what the medium says, sees the next
// medium while it runs, and moves to another host with what its disk has in addition to the image: live, in a drain,
// and off. It does all that the medium says again at the boot after its instance_id has changed.
func TestAccVirtualMachine_cloudGuest(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	first, second := l.StartHost(t), l.StartHost(t) // One of them is drained.
	image, err := lab.CloudImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(l.PrivateKeyFile() + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	address := l.LANAddress(251)
	storage := fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}
resource "virtfleet_image" "debian" {
  name   = "debian"
  pool   = virtfleet_storage_pool.vms.name
  source = { file = %[2]q }
}
`, name, image)
	const mac = "52:54:00:13:00:01"
	config := func(host, strategy, file string, more ...string) string {
		return providerBlock(l, "", first, second) + storage + guest(l, name).with(talking).with(hcl{
			"kernel": "", "host": host, "run_strategy": quote(strategy), "cpu": `{ vcpus = 2 }`,
			"memory": `{ size = "384Mi" }`, "termination_grace_period": quote("5m"),
			"wait_for": `{ guest_agent = true, ip_address = "lan", timeout = "15m" }`,
			"timeouts": `{ create = "30m", update = "30m" }`,
			"disks": `{ root = {
				pool = virtfleet_storage_pool.vms.name, image = virtfleet_image.debian.id, size = "3Gi"
			} }`,
			"interfaces": fmt.Sprintf(`{ lan = { bridge = %q, mac = %q } }`, lab.LANBridge, mac),
			"cloud_init": fmt.Sprintf(`{
				user_data = join("\n", ["#cloud-config", yamlencode({
					locale = "C.UTF-8" # The image has no other, and cloud-init would report an error.
					ssh_genkeytypes = ["ed25519"]
					users       = [{ name = "ops", groups = "cdrom", shell = "/bin/bash", ssh_authorized_keys = [%q] }]
					write_files = [{ path = "/etc/motd", content = "%s\n" }]
				})])
				network_config = yamlencode({
					version = 2
					ethernets = { lan = { match = { macaddress = %q }, addresses = ["%s/24"] } }
				})
				vendor_data = "#!/bin/sh\necho instance >>/etc/vendor\n"
				%s
			}`, strings.TrimSpace(string(key)), file, mac, address, strings.Join(more, "\n")),
		}).String()
	}
	boot := ""
	does := func(script string, want ...string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			said, err := runOverSSH(t, l, "ops", address, "cat /proc/sys/kernel/random/boot_id; "+script)
			if err != nil {
				return err
			}
			id, said, _ := strings.Cut(said, "\n")
			if boot != "" && boot != id {
				return fmt.Errorf("the guest was restarted")
			}
			boot = id
			return contains(said, want...)
		}
	}
	moves := &transfer{l: l, name: name}
	movedTo := func(h *lab.Host) []statecheck.StateCheck {
		return []statecheck.StateCheck{
			know("current_host", exactly(h.Name)), know("location.left_volumes", knownvalue.ListExact(nil)),
		}
	}
	stateOn := func(h *lab.Host, want string) resource.TestCheckFunc {
		return func(*terraform.State) error { return contains(l.Virsh(t, h.Name, "domstate", name), want) }
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: config(quote(first.Name), "Always", "first file"), ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: []statecheck.StateCheck{
			know("ready", knownvalue.Bool(true)), know("ip_addresses.lan", knownvalue.ListPartial(map[int]knownvalue.Check{
				0: exactly(address),
			})),
		},
		Check: does(`cloud-init status --wait >/dev/null; cloud-init status --long; hostname; id -un; cat /etc/motd; `+
			`[ "$(df --output=size -m / | tail -1)" -gt 2600 ] && echo the root file system is as large as the disk; `+
			`wc -l /etc/vendor`,
			"status: done", name+"\nops\nfirst file\nthe root file system is", "\n1 /etc/vendor"),
	}, resource.TestStep{
		// Another medium for the running guest, which sees it in its drive.
		Config: config(quote(first.Name), "Always", "second file"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: does("cat /etc/motd; grep -ao 'second file' /dev/sr0", "first file", "second file"),
	}, resource.TestStep{
		PreConfig:         func() { moves.begin(t, second) },
		Config:            config(quote(second.Name), "Always", "second file"),
		ConfigPlanChecks:  changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: movedTo(second),
		Check: resource.ComposeTestCheckFunc(moves.check(t, true),
			does("cat /etc/motd; cat /usr/bin/* >/dev/null && echo all read", "all read"),
			func(*terraform.State) error { return overlayOnly(t, l, second.Name, name) }),
	}, resource.TestStep{
		PreConfig: func() { moves.begin(t, first) },
		Config: config("", "Always", "second file") + fmt.Sprintf(`
resource "virtfleet_host_maintenance" "this" {
  host       = %q
  depends_on = [virtfleet_virtual_machine.this]
}`, second.Name),
		Check: resource.ComposeTestCheckFunc(moves.check(t, true),
			does("cat /etc/motd; cat /usr/bin/* >/dev/null && echo all read", "all read"),
			func(*terraform.State) error { return overlayOnly(t, l, first.Name, name) }),
	}, resource.TestStep{
		Config: config("", "Halted", "second file"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: stateOn(first, "shut off"),
	}, resource.TestStep{
		PreConfig:         func() { moves.begin(t, second) },
		Config:            config(quote(second.Name), "Halted", "second file"),
		ConfigPlanChecks:  changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: movedTo(second),
		Check: resource.ComposeTestCheckFunc(moves.check(t, false), func(s *terraform.State) error {
			boot = "" // Of the next boot.
			return stateOn(second, "shut off")(s)
		}),
	}, resource.TestStep{
		// The disk that was moved boots, and cloud-init recognizes the instance: it leaves the first file alone.
		Config:            config(quote(second.Name), "Always", "second file"),
		ConfigPlanChecks:  changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{know("ready", knownvalue.Bool(true))},
		Check: does(`cat /etc/motd; grep -ao "second file" /dev/sr0; cat /usr/bin/* >/dev/null && echo all read; `+
			`wc -l /etc/vendor`, "first file", "second file", "all read\n1 /etc/vendor"),
	}, resource.TestStep{
		// For another instance it does everything again.
		Config: config(quote(second.Name), "Always", "second file", `instance_id = "again"`,
			`meta_data = yamlencode({ local-hostname = "again" })`),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: resource.ComposeTestCheckFunc(does("hostname; cat /etc/motd", name+"\nfirst file"),
			func(s *terraform.State) error {
				l.ShutDownByAgent(t, second.Name, name)
				lab.Await(t, "the guest to shut down", func() bool { return l.State(t, second.Name, name) == "shut off" })
				l.Virsh(t, second.Name, "start", name)
				boot = "" // Of this boot.
				return does(`cloud-init status --wait >/dev/null; cloud-init status --long; hostname; cat /etc/motd; `+
					`wc -l /etc/vendor`, "status: done", "again\nsecond file\n2 /etc/vendor")(s)
			}),
	})
}

// transfer measures a move: what the target received over the network that the hosts have in common, and what the
// disk occupies there.
type transfer struct {
	l    *lab.Lab
	name string
	to   *lab.Host
	had  int
}

// received is how many bytes the target's network card has received.
func (m *transfer) received(t *testing.T) int {
	t.Helper()
	_, counters, _ := strings.Cut(m.l.Run(t, m.to.Name, "cat", "/proc/net/dev"), "eth0:")
	n, err := strconv.Atoi(strings.Fields(counters)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (m *transfer) begin(t *testing.T, to *lab.Host) {
	t.Helper()
	m.to = to
	m.had = m.received(t)
}

// check expects that the disk on the target is an overlay that has little itself, and that no more was received than
// the overlay and, of a running guest, its memory: not the image.
func (m *transfer) check(t *testing.T, running bool) resource.TestCheckFunc {
	t.Helper()
	return func(s *terraform.State) error {
		const slack = 24 << 20 // Headers, and what the provider asks the host.
		received, memory := m.received(t)-m.had, 0
		if running {
			job := m.l.Virsh(t, m.to.Name, "domjobinfo", m.name, "--completed", "--rawstats")
			_, processed, _ := strings.Cut(job, "memory_processed:")
			if _, err := fmt.Sscan(processed, &memory); err != nil {
				return fmt.Errorf("libvirt counted no memory: %w: %s", err, job)
			}
		}
		at := "/var/lib/libvirt/" + m.name
		file := s.RootModule().Resources["virtfleet_virtual_machine.this"].Primary.Attributes["disks.root.path"]
		occupies := func(file string) (bytes int) {
			if _, err := fmt.Sscan(m.l.Run(t, m.to.Name, "sh", "-c", "du --block-size=1 "+file), &bytes); err != nil {
				t.Error(err)
			}
			return bytes
		}
		overlay, image := occupies(file), occupies(at+"/debian-*")
		t.Logf("%s received %d bytes, %d are memory; the overlay has %d, the image %d", m.to.Name, received, memory,
			overlay, image)
		if image < 2*slack || overlay > image/2 || received < overlay || received > memory+overlay+slack {
			return fmt.Errorf("%s received %d bytes, %d of them memory, for an overlay of %d on an image of %d", m.to.Name,
				received, memory, overlay, image)
		}
		return contains(m.l.Run(t, m.to.Name, "qemu-img", "info", "-U", file), "backing file: "+at+"/debian-")
	}
}

// overlayOnly expects that the last move copied what the disk has in addition to its image, and not the image.
func overlayOnly(t *testing.T, l *lab.Lab, host, name string) error {
	t.Helper()
	record := l.Virsh(t, host, "metadata", name, "urn:virtfleet:1")
	found := regexp.MustCompile(`disk-total="(\d+)"`).FindAllStringSubmatch(record, -1)
	if len(found) == 0 {
		return fmt.Errorf("no disk was copied: %s", record)
	}
	copied, err := strconv.Atoi(found[len(found)-1][1])
	t.Logf("copied: %d bytes of disks", copied)
	if err != nil || copied == 0 || copied > 128<<20 {
		return fmt.Errorf("%d bytes of disks were copied: %w", copied, err)
	}
	return nil
}
