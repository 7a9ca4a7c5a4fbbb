package inventory

import "regexp"

// NoControllerRemedy says what to do about a host by whose cgroups libvirt can't limit a VM.
const NoControllerRemedy = "Remove the attribute, or use another host. " + ControllerRemedy

// ControllerRemedy says how a host gets a controller of cgroups.
const ControllerRemedy = "Or see that the host has the controller in /sys/fs/cgroup and that cgroup_controllers in " +
	"its /etc/libvirt/qemu.conf doesn't leave it out; then restart its libvirtd or virtqemud. A VM that is started " +
	"there afterwards has the controller."

// limitRemedies say what to do about limits that a host's libvirt or kernel refuses, by the words of the refusal.
var limitRemedies = []struct {
	words  *regexp.Regexp
	remedy string
}{
	{
		regexp.MustCompile(`cgroup.* is required for scheduler tuning|CPU tuning is not available|` +
			`cgroup .*controller is not mounted|blkio cgroup isn't mounted|(Memory cgroup|Block I/O tuning) is not available`),
		NoControllerRemedy,
	},
	{
		regexp.MustCompile(`Failed to create v\d (controller|cgroup) .*No such file|` +
			`Unable to read from '/sys/fs/cgroup/.*cgroup\.controllers': No such file`),
		"Create the cgroup of platform.resources.partition on the host for each controller, or correct its path. Without " +
			`systemd, a directory of the path "/machine/prod" is called /machine/prod.partition.`,
	},
	{
		regexp.MustCompile(`device weight is valid only for cfq`),
		"Remove weight from platform.resources.blkio_devices: the host's kernel has no weights of single devices. Limits " +
			"such as write_bytes_sec need none.",
	},
	{
		regexp.MustCompile(`Path '.*' (is not accessible|must be a block device)`),
		"Correct the path in platform.resources.blkio_devices, or use a host that has the block device.",
	},
	{
		regexp.MustCompile(`cannot limit locked memory`),
		"Remove memory.hard_limit and memory.locked, or give the host's libvirtd or virtqemud the capability " +
			"CAP_SYS_RESOURCE, or a limit of locked memory (LimitMEMLOCK) that is as high.",
	},
	{
		regexp.MustCompile(`cfs_quota_us|cfs_period_us`),
		"With cgroup v1, each quota divided by its period (of the virtual CPUs, the emulator and the I/O threads) must be " +
			"at most cpu.global_quota / cpu.global_period. That must be at most the limit of the VM's partition.",
	},
	{
		regexp.MustCompile(`'?shares'? .*must be in range`),
		"Set cpu.shares from 2 to 262144 on a host with cgroup v1, and from 1 to 10000 with v2.",
	},
	{
		regexp.MustCompile(`swap_hard_limit|memory\.memsw\.limit_in_bytes|memory\.limit_in_bytes`),
		"Set memory.hard_limit and memory.swap_hard_limit together, the second to at least the first, and both to more " +
			"than QEMU has now.",
	},
}

// LimitRemedy returns what to do about a limit of a VM that its host refuses; "" if the error isn't about one.
func LimitRemedy(err error) string {
	if err == nil {
		return ""
	}

	for _, known := range limitRemedies {
		if known.words.MatchString(err.Error()) {
			return known.remedy
		}
	}

	return ""
}
