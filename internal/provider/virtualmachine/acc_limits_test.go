package virtualmachine_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// makePartition makes a resource partition as an administrator does without systemd, below the one that libvirt makes
// for its first guest.
const makePartition = `set -e
for group in /sys/fs/cgroup/*/machine; do
	mkdir "$group/prod.partition"
	for setting in cpuset.cpus cpuset.mems; do
		[ ! -e "$group/$setting" ] || cat "$group/$setting" >"$group/prod.partition/$setting"
	done
done`

// limits are the values of a VM's limits.
type limits struct {
	shares, period, quota, globalPeriod, globalQuota, ofEmulator, ofIOThread int
	hard, soft, swap, weight, bytes, requests                                int
}

// The second limits are higher than the first ones: a quota in its period, and the hard limit on memory, would be above
// what the whole VM and its swap space had before. The third ones have lower quotas, and more memory.
var (
	firstLimits = limits{
		shares: 512, period: 100000, quota: 100000, globalPeriod: 50000, globalQuota: 55000, ofEmulator: 90000,
		ofIOThread: 60000, soft: 512, weight: 300, bytes: 1000000, requests: 500,
	}
	secondLimits = limits{
		shares: 700, period: 50000, quota: 70000, globalPeriod: 100000, globalQuota: 150000, ofEmulator: 140000,
		ofIOThread: 90000, hard: 700, soft: 400, swap: 800, weight: 400, bytes: 2000000, requests: 600,
	}
	thirdLimits = limits{
		shares: 600, period: 100000, quota: 60000, globalPeriod: 50000, globalQuota: 40000, ofEmulator: 70000,
		ofIOThread: 50000, hard: 900, soft: 600, swap: 1000, weight: 200, bytes: 3000000, requests: 700,
	}
)

// hcl is the configuration of a VM with the limits, on a device of its host.
func (v limits) hcl(device string) hcl {
	memory := func(mib int) string { return quote(fmt.Sprint(mib) + "Mi") }
	return hcl{
		"cpu": fmt.Sprintf(`{
    vcpus         = 1, shares = %d, period = %d, quota = %d, global_period = %d, global_quota = %d
    emulator_period = 100000, emulator_quota = %d, iothread_period = 100000, iothread_quota = %d
  }`, v.shares, v.period, v.quota, v.globalPeriod, v.globalQuota, v.ofEmulator, v.ofIOThread),
		"memory": fmt.Sprintf(`{ size = "128Mi", hard_limit = %s, soft_limit = %s, swap_hard_limit = %s }`,
			memory(v.hard), memory(v.soft), memory(v.swap)),
		"platform": fmt.Sprintf(`{
    iothreads = 1
    resources = {
      partition = "/machine/prod", blkio_weight = %d
      blkio_devices = { %q = { read_bytes_sec = %d, write_iops_sec = %d } }
    }
  }`, v.weight, device, v.bytes, v.requests),
	}
}

// files are what the kernel has of the limits in the cgroups of the VM, by the version of the cgroups, the controller
// and the file.
func (v limits) files(device string) [3]map[string]string {
	bytes := func(mib int, unlimited string) string {
		if mib == 0 {
			return unlimited
		}
		return strconv.Itoa(mib << 20)
	}
	number := func(n int, format string) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf(format, device, n)
	}
	// Version 2 has a quota and its period in one file, all limits of a device in another, and swap space alone.
	quota := func(quota, period int) string {
		if quota < 0 {
			return fmt.Sprint("max ", period)
		}
		return fmt.Sprint(quota, " ", period)
	}
	ofDevice := ""
	if v.bytes > 0 {
		ofDevice = fmt.Sprintf("%s rbps=%d wbps=max riops=max wiops=%d", device, v.bytes, v.requests)
	}
	const unlimited = "9223372036854771712"
	return [3]map[string]string{
		1: {
			"cpu cpu.shares": strconv.Itoa(v.shares), "cpu cpu.cfs_period_us": strconv.Itoa(v.globalPeriod),
			"cpu cpu.cfs_quota_us": strconv.Itoa(v.globalQuota), "cpu vcpu0/cpu.cfs_period_us": strconv.Itoa(v.period),
			"cpu vcpu0/cpu.cfs_quota_us":                strconv.Itoa(v.quota),
			"cpu emulator/cpu.cfs_quota_us":             strconv.Itoa(v.ofEmulator),
			"cpu iothread1/cpu.cfs_quota_us":            strconv.Itoa(v.ofIOThread),
			"memory memory.limit_in_bytes":              bytes(v.hard, unlimited),
			"memory memory.soft_limit_in_bytes":         bytes(v.soft, unlimited),
			"memory memory.memsw.limit_in_bytes":        bytes(v.swap, unlimited),
			"blkio blkio.bfq.weight":                    strconv.Itoa(v.weight),
			"blkio blkio.throttle.read_bps_device":      number(v.bytes, "%s %d"),
			"blkio blkio.throttle.write_iops_device":    number(v.requests, "%s %d"),
			"blkio blkio.throttle.write_bps_device":     "",
			"cpuset vcpu0/cpuset.mems":                  "0",
			"cpu iothread1/cpu.cfs_period_us":           "100000",
			"cpu emulator/cpu.cfs_period_us":            "100000",
			"cpu ../../prod.partition/cpu.cfs_quota_us": "-1",
		},
		2: {
			"cpu cpu.weight": strconv.Itoa(v.shares), "cpu cpu.max": quota(v.globalQuota, v.globalPeriod),
			"cpu vcpu0/cpu.max": quota(v.quota, v.period), "cpu emulator/cpu.max": quota(v.ofEmulator, 100000),
			"cpu iothread1/cpu.max": quota(v.ofIOThread, 100000), "memory memory.max": bytes(v.hard, "max"),
			"memory memory.high": bytes(v.soft, "max"), "memory memory.swap.max": bytes(v.swap, "max"),
			"blkio io.bfq.weight": fmt.Sprint("default ", v.weight), "blkio io.max": ofDevice,
			"cpuset vcpu0/cpuset.mems.effective": "0", "cpu ../../prod.partition/cpu.max": "max 100000",
		},
	}
}

// said are the limits as libvirt says that they are.
func (v limits) said() []string {
	return []string{
		fmt.Sprint("cpu_shares : ", v.shares), fmt.Sprint("vcpu_period : ", v.period), fmt.Sprint("vcpu_quota : ", v.quota),
		fmt.Sprint("emulator_quota : ", v.ofEmulator), fmt.Sprint("global_period : ", v.globalPeriod),
		fmt.Sprint("global_quota : ", v.globalQuota), fmt.Sprint("iothread_quota : ", v.ofIOThread),
	}
}

// TestAccLimits_cgroups: the limits of a VM are in effect in the cgroups of its QEMU: those it starts with, and those
// that are changed in any direction, repaired and removed while its guest's clock runs on. What the host can't do is
// refused, and says what to do.
func TestAccLimits_cgroups(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHostWithCgroups(t)
	name, without := lab.Name(t), "kvm2"
	l.RemoveDomain(t, name)
	l.RemoveDomain(t, name+"-second")
	device := l.LoopDevice(t, h.Name, name, 1<<20)
	number := strings.TrimSpace(l.Run(t, h.Name, "lsblk", "--noheadings", "--nodeps", "--output", "MAJ:MIN", device))
	tf := acctest.NewCLI(t)
	boot := &boots{l: l, name: name}
	base := guest(l, name).with(talking).with(hcl{"host": quote(h.Name)})
	addition := "" // what the configuration has in addition to the VM
	config := func(v limits, change hcl) {
		t.Helper()
		block := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: h}, {Of: l.Host(without)}}}
		tf.Config(t, block.String()+base.with(v.hcl(device)).with(change).String()+addition)
	}
	uptime := 0.0
	continues := func(host string) {
		t.Helper()
		if err := boot.same(t, host)(nil); err != nil {
			t.Fatal(err)
		}
		now, err := strconv.ParseFloat(strings.Fields(guestFile(t, l, host, name, "/proc/uptime"))[0], 64)
		if err != nil || now <= uptime {
			t.Errorf("the guest's clock was at %v before the change, and is at %v: %v", uptime, now, err)
		}
		uptime = now
	}
	groupOf := func(controller string) (group string, version int) {
		t.Helper()
		group, version, err := h.GuestCgroup(t.Context(), name, controller)
		if err != nil {
			t.Fatal(err)
		}
		return group, version
	}
	inEffect := func(v limits, said ...string) {
		t.Helper()
		want := map[string]string{}
		for _, controller := range []string{"cpu", "cpuset", "memory", "blkio"} {
			group, version := groupOf(controller)
			for at, value := range v.files(number)[version] {
				if file, ok := strings.CutPrefix(at, controller+" "); ok {
					want[group+"/"+file] = value
				}
			}
		}
		for at, value := range want {
			if got := strings.TrimSpace(l.Run(t, h.Name, "cat", at)); got != value {
				t.Errorf("%s is %q, want %q", at, got, value)
			}
		}
		if len(said) > 0 {
			expect(t, strings.Join(strings.Fields(l.Virsh(t, h.Name, "schedinfo", name)), " "), said...)
		}
	}
	apply := func(v limits, change hcl) {
		t.Helper()
		config(v, change)
		tf.Run(t, "apply")
		continues(h.Name)
		noChanges(t, tf)
	}

	// The host lacks the partition. libvirt makes /machine when it puts the first guest there.
	config(firstLimits, nil)
	expect(t, tf.Fail(t, "apply"), "No such file", "Create the cgroup of platform.resources.partition")
	config(firstLimits, hcl{"platform": `{ resources = { blkio_devices = { "/dev/lacking" = { read_bytes_sec = 7 } } } }`})
	expect(t, tf.Fail(t, "plan"), `it has no block device "/dev/lacking"`, "Correct the path")
	config(firstLimits, hcl{"platform": `{ resources = { blkio_devices = { "/etc/passwd" = { read_bytes_sec = 7 } } } }`})
	expect(t, tf.Fail(t, "apply"), "'/etc/passwd' must be a block device",
		"Correct the path in platform.resources.blkio_devices")
	l.Run(t, h.Name, "bash", "-c", makePartition)

	apply(firstLimits, nil)
	inEffect(firstLimits, firstLimits.said()...)
	apply(secondLimits, nil)
	inEffect(secondLimits, secondLimits.said()...)

	// What a user does by hand.
	for _, command := range []string{
		"schedinfo NAME --live cpu_shares=100", "schedinfo NAME --live vcpu_quota=30000",
		"schedinfo NAME --live emulator_quota=-1", "schedinfo NAME --live iothread_quota=20000",
		"schedinfo NAME --live global_quota=-1", "memtune NAME --live --soft-limit 300000 --hard-limit 650000",
		"blkiotune NAME --live --weight 150", "blkiotune NAME --live --device-read-bytes-sec " + device + ",0",
	} {
		l.Virsh(t, h.Name, strings.Fields(strings.Replace(command, "NAME", name, 1))...)
	}
	var edits []edit
	for _, attribute := range limitAttributes {
		if !strings.HasSuffix(attribute, "period") && attribute != "memory.swap_hard_limit" {
			edits = append(edits, edit{seen: attribute})
		}
	}
	expectDiffers(t, tf.Plan(t)[address], edits)
	apply(secondLimits, nil)
	inEffect(secondLimits, secondLimits.said()...)
	apply(thirdLimits, nil)
	inEffect(thirdLimits, thirdLimits.said()...)

	// Imported, all of them are known.
	tf.Run(t, "state", "rm", address)
	tf.Run(t, "import", address, name)
	imported := tf.Plan(t)[address]
	for _, attribute := range limitAttributes {
		before, after := attributeAt(imported.Before, attribute), attributeAt(imported.After, attribute)
		if before == nil || !cmp.Equal(before, after) {
			t.Errorf("%s was imported as %v, declared is %v", attribute, before, after)
		}
	}
	apply(thirdLimits, nil)

	// What the kernel of the host lacks.
	tooMuch := thirdLimits
	tooMuch.weight = 5000
	config(tooMuch, nil)
	expect(t, tf.Fail(t, "plan"), "because of platform.resources.blkio_weight",
		"its libvirt accepts weights from 100 to 1000, platform.resources.blkio_weight is 5000", "Set a weight")
	if _, version := groupOf("blkio"); version == 1 {
		config(thirdLimits, hcl{"platform": strings.Replace(thirdLimits.hcl(device)["platform"], "read_bytes_sec",
			"weight = 300, read_bytes_sec", 1)})
		expect(t, tf.Fail(t, "apply"), "Changing platform.resources.blkio_devices of the running VM",
			"Remove weight from platform.resources.blkio_devices")
	}
	if _, version := groupOf("cpu"); version == 1 {
		above := thirdLimits
		above.quota = 90000
		config(above, nil)
		expect(t, tf.Fail(t, "apply"), "Changing cpu.quota of the running VM", "With cgroup v1")
	}
	less := thirdLimits
	less.swap = 800
	config(less, nil)
	expect(t, tf.Fail(t, "plan"), "It includes the memory, so it can't be below hard_limit")
	apply(thirdLimits, nil)
	inEffect(thirdLimits, thirdLimits.said()...)

	// Not all of the limits can be removed while the VM runs.
	removed := hcl{
		"cpu": `{ vcpus = 1, shares = 0, period = 0, quota = 0, global_period = 0, global_quota = 0, emulator_period = 0
    emulator_quota = 0, iothread_period = 0, iothread_quota = 0 }`,
		"memory":   `{ size = "128Mi", hard_limit = "0", soft_limit = "0", swap_hard_limit = "0" }`,
		"platform": `{ iothreads = 1, resources = { partition = "", blkio_weight = 0, blkio_devices = {} } }`,
	}
	config(thirdLimits, removed)
	expect(t, tf.Fail(t, "plan"), "Change needs a restart", "cpu.shares: The value can be changed in a running VM")
	kept := hcl{
		"memory":   removed["memory"],
		"platform": `{ iothreads = 1, resources = { partition = "/machine/prod", blkio_weight = 200, blkio_devices = {} } }`,
	}
	apply(thirdLimits, kept)
	if err := lacks(t, l, h.Name, name, "<memtune", "<device>")(nil); err != nil {
		t.Error(err)
	}

	// A host without cgroups can't give the VM its quotas. A VM that runs there shows it: neither a plan nor a drain moves
	// the VM there.
	addition = tinyVM(name+"-second").with(hcl{"host": quote(without)}).named("second") + fmt.Sprintf(`
data "virtfleet_migration_candidates" "this" {
  virtual_machine_id = %[1]s.id
  depends_on         = [virtfleet_virtual_machine.second]
}
output "why" {
  value = join(" ", [
    for b in data.virtfleet_migration_candidates.this.hosts[%[2]q].blockers : "${b.reason} ${b.message}"
  ])
}
data "virtfleet_evacuation_plan" "this" {
  host       = %[3]q
  depends_on = [virtfleet_virtual_machine.second]
}
output "blocked" {
  value = jsonencode(data.virtfleet_evacuation_plan.this)
}
`, address, without, h.Name)
	apply(thirdLimits, kept)
	noCgroup := fmt.Sprintf(`HostResourcesNotAvailable host \"%s\" puts its VMs`, without)
	expect(t, tf.Run(t, "output", "why"), noCgroup, `into no cgroup of the controller \"cpu\"`)
	expect(t, tf.Run(t, "output", "blocked"), "into no cgroup of the controller")
	config(thirdLimits, kept.with(hcl{"host": quote(without)}))
	expect(t, tf.Fail(t, "plan"), "Virtual machine can't be moved: HostResourcesNotAvailable", "cpu.emulator_quota",
		"Choose another host, or first set the limits to 0", "cgroup_controllers")
	continues(h.Name)
	addition = ""
	kept["cpu"] = strings.Replace(removed["cpu"], "shares = 0", "shares = 600", 1)
	apply(thirdLimits, kept)
	inEffect(limits{
		shares: 600, period: 100000, quota: -1, globalPeriod: 100000, globalQuota: -1, ofEmulator: -1, ofIOThread: -1,
		weight: 200,
	})

	destroyAndCheck(t, l, tf, name, name+"-second")
}

// TestAccLimits_noCgroups: a VM whose host has no cgroups keeps the limits that it declares. The plan of other limits
// says that they can't be changed while it runs. A new VM with a quota, with which the host couldn't start it, is
// refused unless it stays off.
func TestAccLimits_noCgroups(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	l.RemoveDomain(t, name+"-quota")
	tf := acctest.NewCLI(t)
	config := func(shares, soft, weight int) {
		t.Helper()
		tf.Config(t, acctest.OneHost(l)+tinyVM(name).with(hcl{
			"cpu":      fmt.Sprintf(`{ vcpus = 1, shares = %d }`, shares),
			"memory":   fmt.Sprintf(`{ size = "64Mi", soft_limit = "%dMi" }`, soft),
			"platform": fmt.Sprintf(`{ resources = { blkio_weight = %d } }`, weight),
		}).String())
	}
	config(600, 500, 200)
	tf.Run(t, "apply")
	noChanges(t, tf)
	config(700, 400, 300)
	said := tf.Fail(t, "plan")
	for attribute, controller := range map[string]string{
		"cpu.shares": "cpu", "memory.soft_limit": "memory", "platform.resources.blkio_weight": "blkio",
	} {
		expect(t, said, "Host can't take the change", "because of "+attribute, "its libvirt can't limit the running VM",
			fmt.Sprintf("the controller %q", controller), "or use another host")
	}
	config(600, 500, 200)
	noChanges(t, tf)

	first := acctest.OneHost(l) + tinyVM(name).with(hcl{
		"cpu": `{ vcpus = 1, shares = 600 }`, "memory": `{ size = "64Mi", soft_limit = "500Mi" }`,
		"platform": `{ resources = { blkio_weight = 200 } }`,
	}).String()
	quota := tinyVM(name + "-quota").with(hcl{"cpu": `{ vcpus = 1, quota = 50000 }`})
	tf.Config(t, first+quota.named("quota"))
	expect(t, tf.Fail(t, "plan"), "No host can take the VM", "because of cpu.quota", "it puts its VMs",
		`into no cgroup of the controller "cpu"`, "or use another host")
	halted := quota.with(hcl{"run_strategy": quote("Halted")}).named("quota")
	tf.Config(t, first+halted)
	tf.Run(t, "apply")
	noChanges(t, tf)
	tf.Config(t, first+quota.named("quota")) // It would be started now.
	expect(t, tf.Fail(t, "plan"), "Host can't take the change", "because of cpu.quota", "into no cgroup of the controller")

	// A restart would shut the guest down, and couldn't start it with a quota.
	tf.Config(t, acctest.OneHost(l)+tinyVM(name).with(hcl{
		"cpu":      `{ sockets = 1, max_sockets = 2, shares = 600, quota = 50000 }`,
		"memory":   `{ size = "64Mi", soft_limit = "500Mi" }`,
		"platform": `{ resources = { blkio_weight = 200 } }`, "update_policy": quote("Restart"),
	}).String()+halted)
	expect(t, tf.Fail(t, "plan"), "Host can't take the change", "because of cpu.quota", "into no cgroup of the controller")
	tf.Config(t, first+halted)
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name, name+"-quota")
}

// limitAttributes are those that the limits declare.
var limitAttributes = []string{
	"cpu.shares", "cpu.period", "cpu.quota", "cpu.global_period", "cpu.global_quota", "cpu.emulator_period",
	"cpu.emulator_quota", "cpu.iothread_period", "cpu.iothread_quota", "memory.hard_limit", "memory.soft_limit",
	"memory.swap_hard_limit", "platform.resources.blkio_weight", "platform.resources.blkio_devices",
}
