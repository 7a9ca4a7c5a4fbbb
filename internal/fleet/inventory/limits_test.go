package inventory

import (
	"errors"
	"strings"
	"testing"
)

// TestLimitRemedy: what libvirt says of a limit that its host refuses leads to what to do; nothing else does.
func TestLimitRemedy(t *testing.T) {
	t.Parallel()

	const controllers = "cgroup_controllers"

	for said, remedy := range map[string]string{
		"unsupported configuration: cgroup cpu is required for scheduler tuning":                     controllers,
		"Requested operation is not valid: cgroup CPU controller is not mounted":                     controllers,
		"Requested operation is not valid: cgroup memory controller is not mounted":                  controllers,
		"Requested operation is not valid: blkio cgroup isn't mounted":                               controllers,
		"Failed to create v1 controller cpu for group: No such file or directory":                    "partition",
		"Unable to read from '/sys/fs/cgroup/machine/cgroup.controllers': No such file or directory": "partition",
		"Requested operation is not valid: blkio device weight is valid only for cfq scheduler":      "Remove weight",
		"Path '/dev/nosuch' is not accessible: No such file or directory":                            "blkio_devices",
		"Path '/etc/passwd' must be a block device: Invalid argument":                                "blkio_devices",
		"cannot limit locked memory of process 104 to 1073741824: Operation not permitted":           "CAP_SYS_RESOURCE",
		"Invalid value '80000' for 'cpu.cfs_quota_us': Invalid argument":                             "global_quota",
		"invalid argument: shares '1' must be in range [2, 262144]":                                  "2 to 262144",
		"unsupported configuration: Value of cputune 'shares' must be in range [2, 262144]":          "2 to 262144",
		"memory hard_limit tunable value must be lower than or equal to swap_hard_limit":             "together",
		"Invalid value '314572800' for 'memory.memsw.limit_in_bytes': Invalid argument":              "together",
		"Cannot access storage file '/srv/a.img': No such file or directory":                         "",
		"domain is not running": "",
	} {
		got := LimitRemedy(errors.New(said))
		if !strings.Contains(got, remedy) || (got == "") != (remedy == "") {
			t.Errorf("%q: %q, want %q", said, got, remedy)
		}
	}
}
