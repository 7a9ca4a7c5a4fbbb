package guestinfo_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// loggedIn is what a guest keeps of a user who is logged in: a record of utmp, which C programs know as struct utmpx,
// in base64.
func loggedIn(user, line string, since time.Time) string {
	const userProcess = 7
	record := struct {
		Type, _         int16
		PID             int32
		Line            [32]byte
		ID              [4]byte
		User            [32]byte
		Host            [256]byte
		_               [2]int16
		_               int32
		Seconds, Micros int32
		_               [36]byte
	}{Type: userProcess, PID: 1, Seconds: int32(since.Unix())}
	copy(record.Line[:], line)
	copy(record.User[:], user)
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, record); err != nil {
		panic(err) // Its size is fixed.
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// addressed waits until the guest has an address.
func addressed(t *testing.T, l *lab.Lab, name string) {
	t.Helper()
	lab.Await(t, "the guest to have an address", func() bool {
		out, err := l.TryVirsh(t, "kvm2", "domifaddr", name, "--source", "agent")
		return err == nil && strings.Contains(out, "192.168.122.")
	})
}

// TestAccGuestInfo_likeTheGuestSays compares what the agent reports of a mounted filesystem, of a user and of addresses
// with what the guest's own df, who and ip print, which a probe runs.
func TestAccGuestInfo_likeTheGuestSays(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	path := l.Image(t, "kvm2", lab.Name(t)+".raw", "raw", 16<<20)
	l.Run(t, "kvm2", "mkfs.ext4", "-q", "-F", path)
	id, name := define(t, l, "", channel+nic+`<disk type="file" device="disk"><driver name="qemu" type="raw"/>
  <source file="`+path+`"/><target dev="vdb" bus="virtio"/><serial>data-1</serial></disk>`)
	l.Virsh(t, "kvm2", "start", name)
	at := func(root string, path ...any) tfjsonpath.Path {
		p := tfjsonpath.New(root)
		for _, step := range path {
			if i, ok := step.(int); ok {
				p = p.AtSliceIndex(i)
			} else if key, ok := step.(string); ok {
				p = p.AtMapKey(key)
			}
		}
		return p
	}
	expect := func(want knownvalue.Check, root string, path ...any) statecheck.StateCheck {
		return statecheck.ExpectKnownValue(address, at(root, path...), want)
	}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	login := "echo " + loggedIn("alice", "ttyS0", since) + " | busybox base64 -d >/run/utmp"
	var used, total int64
	var ip string
	remember := func(n *int64) knownvalue.Check {
		return knownvalue.Int64Func(func(v int64) error {
			*n = v
			return nil
		})
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: acctest.On(l, "kvm2") + data(id, `wait = "5m"
  probe = { command = ["/bin/sh", "-c", "`+login+` && until [ -b /dev/vda ]; do sleep 0.1; done && `+
				`mount /dev/vda /mnt && echo mounted; echo no >&2; exit 3"]
    timeout = "5m" }`),
			ConfigStateChecks: []statecheck.StateCheck{
				// It was asked before a user logged in.
				know("users", knownvalue.ListExact([]knownvalue.Check{})),
				expect(knownvalue.Bool(true), "probe_result", "exited"),
				expect(knownvalue.Int64Exact(3), "probe_result", "exit_status"),
				expect(knownvalue.StringExact("mounted\n"), "probe_result", "output"),
				expect(knownvalue.StringExact("no\n"), "probe_result", "error_output"),
			},
		}, {
			PreConfig: func() { addressed(t, l, name) },
			Config: acctest.On(l, "kvm2") + data(id, `raw_commands = true
  probe = { command = ["/bin/sh", "-c", "df -k /mnt && busybox who && busybox ip -o -4 addr"], timeout = "5m" }`),
			ConfigStateChecks: []statecheck.StateCheck{
				expect(knownvalue.StringExact("lo"), "interfaces", 0, "name"),
				expect(knownvalue.ObjectExact(map[string]knownvalue.Check{
					"type": knownvalue.StringExact("ipv4"), "ip": knownvalue.StringExact("127.0.0.1"),
					"prefix": knownvalue.Int64Exact(8),
				}), "interfaces", 0, "addresses", 0),
				expect(knownvalue.StringExact("ipv4"), "interfaces", 1, "addresses", 0, "type"),
				expect(knownvalue.Int64Exact(24), "interfaces", 1, "addresses", 0, "prefix"),
				expect(knownvalue.StringFunc(func(says string) error {
					ip = says
					return nil
				}), "interfaces", 1, "addresses", 0, "ip"),
				expect(knownvalue.StringExact("/mnt"), "filesystems", 0, "mount_point"),
				expect(knownvalue.StringExact("ext4"), "filesystems", 0, "type"),
				expect(remember(&used), "filesystems", 0, "used_bytes"),
				expect(remember(&total), "filesystems", 0, "total_bytes"),
				expect(knownvalue.StringExact("vdb"), "filesystems", 0, "disks", 0, "target"),
				expect(knownvalue.StringExact("/dev/vda"), "disks", 0, "name"),
				expect(knownvalue.StringExact("vdb"), "disks", 0, "target"),
				expect(knownvalue.Bool(false), "disks", 0, "partition"),
				expect(knownvalue.Null(), "disks", 0, "bus"), unavailable("disks.bus", "^not supported by the host"),
				expect(knownvalue.ListExact([]knownvalue.Check{}), "disks", 0, "dependencies"),
				expect(knownvalue.StringExact("/dev/vda"), "filesystems", 0, "disks", 0, "device"),
				// The guest's clock has no timezone of its own.
				expect(knownvalue.StringExact("UTC"), "timezone", "name"),
				expect(knownvalue.Int64Exact(0), "timezone", "offset_seconds"),
				// The agent leaves out what only root may use.
				expect(knownvalue.StringFunc(func(says string) error {
					_, line, _ := strings.Cut(says, "/dev/vda")
					fields := strings.Fields(line)
					if len(fields) < 3 || fields[1] != fmt.Sprint(used/1024) ||
						fields[2] != fmt.Sprint((total-used)/1024) {
						return fmt.Errorf("df says %q, the agent %d of %d bytes", says, used, total)
					}
					if user := regexp.MustCompile(`(?m)^alice +ttyS0 .*` + since.Format(time.Stamp)); !user.MatchString(says) {
						return fmt.Errorf("who says %q", says)
					}
					if !strings.Contains(says, " "+ip+"/24 ") {
						return fmt.Errorf("ip says %q, the agent %s", says, ip)
					}
					return nil
				}), "probe_result", "output"),
				know("users", knownvalue.ListExact([]knownvalue.Check{knownvalue.ObjectExact(map[string]knownvalue.Check{
					"name": knownvalue.StringExact("alice"), "domain": knownvalue.Null(),
					"login_time": knownvalue.StringExact(since.Format(time.RFC3339)),
				})})),
				know("fsfreeze_status", knownvalue.StringExact("thawed")),
				know("agent_supported", knownvalue.Bool(true)),
				know("missing_commands", knownvalue.ListExact([]knownvalue.Check{})),
				expect(knownvalue.Int64Exact(1), "vcpus", "online"),
				expect(knownvalue.NotNull(), "interfaces", 0, "counters", "rx_bytes"),
				know("load", knownvalue.Null()),
				unavailable("load", "."),
			},
		}, {
			// The agent can't end what it runs.
			Config: acctest.On(l, "kvm2") + data(id, `probe = { command = ["/bin/sleep", "3600"], timeout = "1s" }`),
			ConfigStateChecks: []statecheck.StateCheck{
				expect(knownvalue.Bool(false), "probe_result", "exited"),
				expect(knownvalue.Null(), "probe_result", "exit_status"), expect(knownvalue.Null(), "probe_result", "signal"),
			},
		}, {
			Config: acctest.On(l, "kvm2") + data(id, `probe = { command = ["/bin/sh", "-c", "kill -9 $$"], timeout = "5m" }`),
			ConfigStateChecks: []statecheck.StateCheck{
				expect(knownvalue.Bool(true), "probe_result", "exited"),
				expect(knownvalue.Null(), "probe_result", "exit_status"),
				expect(knownvalue.Int64Exact(9), "probe_result", "signal"),
			},
		}, {
			// While the filesystems are frozen the agent refuses almost everything else.
			PreConfig: func() { l.Virsh(t, "kvm2", "domfsfreeze", name) },
			Config:    acctest.On(l, "kvm2") + data(id, `raw_commands = true`),
			ConfigStateChecks: []statecheck.StateCheck{
				know("fsfreeze_status", knownvalue.StringExact("frozen")),
				know("agent_version", knownvalue.NotNull()),
				know("users", knownvalue.Null()), unavailable("users", "."),
			},
		}, {
			// A command that isn't there is no error of the read either.
			PreConfig: func() { l.Virsh(t, "kvm2", "domfsthaw", name) },
			Config:    acctest.On(l, "kvm2") + data(id, `probe = { command = ["/bin/nonsense"] }`),
			ConfigStateChecks: []statecheck.StateCheck{
				know("probe_result", knownvalue.Null()), unavailable("probe", "^command disabled or failed"),
			},
		}},
	})
	if !tainted(t, l, name) {
		t.Error("a probe doesn't taint: the documentation is wrong")
	}
}
