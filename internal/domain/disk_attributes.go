package domain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

const (
	whenOpened = "The disk is opened with it when the VM starts."
	whenFound  = "The guest reads it when it finds the disk."
)

// DiskRows are the attributes of a disk that each have one place in its element.
var DiskRows = slices.Concat([]Attribute{
	{
		Name: "io", Place: "driver@io", Values: []string{"native", "threads", "io_uring"}, Unset: "default",
		Why: whenOpened, SinceOf: map[string]string{"io_uring": "6.3.0"},
		DefaultDoc: "`native` for `block` with the cache mode `none`, otherwise QEMU decides",
		Doc: "How QEMU reads and writes. `native` requires `cache` `none` or `directsync`; `io_uring` requires libvirt " +
			"6.3 and QEMU 5.0.",
	},
	{
		Name: "discard", Place: "driver@discard", Values: []string{"unmap", "ignore"}, Unset: "default", Why: whenOpened,
		DefaultDoc: "`unmap`, if they are writable and `device` is `disk`",
		Doc:        "Whether blocks that the guest frees are freed on the host.",
	},
	{
		Name: "detect_zeroes", Place: "driver@detect_zeroes", Values: []string{"off", "on", "unmap"}, Unset: "default",
		Why:        whenOpened,
		DefaultDoc: "QEMU's, which is `off`",
		Doc: "Whether zeroes that the guest writes are stored as holes. `unmap` frees their blocks and requires " +
			"`discard`.",
	},
	{
		Name: "error_policy", Place: "driver@error_policy", Values: []string{"stop", "report", "ignore", "enospace"},
		Unset: "default", Why: whenOpened,
		DefaultDoc: "`stop`",
		Doc: "What happens on an I/O error: `stop` pauses the VM, `report` tells the guest, `enospace` pauses only if " +
			"there is no space left.",
	},
	{
		Name: "rerror_policy", Place: "driver@rerror_policy", Values: []string{"stop", "report", "ignore"},
		Unset: "default", Why: whenOpened,
		DefaultDoc: "the value of `error_policy`",
		Doc:        "What happens on an error while reading, if it differs from `error_policy`.",
	},
	{
		Name: "shareable", Place: "shareable", Kind: Flag, Why: whenOpened,
		DefaultDoc: "`false`",
		Doc: "Whether several VMs may write to the disk at once: without a cluster file system, they **destroy the data**. " +
			"Requires the format `raw`. Not the same as `shared`.",
	},
	{
		Name: "transient", Place: "transient", Kind: Flag, Since: "6.9.0", Why: whenOpened,
		DefaultDoc: "`false`",
		Doc: "Whether what the guest writes is discarded when it stops. A VM with such a disk can't be moved " +
			"while it runs.",
	},
	{
		Name: "iothread", Place: "driver@iothread", Kind: Count, Zero: true, Why: whenOpened,
		Doc: "Number of the I/O thread that serves the disk, up to `platform.iothreads`; `0`: none. For the bus `virtio`.",
	},
	{
		Name: "queues", Place: "driver@queues", Kind: Count, Zero: true, Why: whenFound,
		Doc: "Number of queues of a disk on the bus `virtio`; `0`: QEMU decides.",
	},
	{
		Name: "wwn", Place: "wwn", Why: whenFound,
		Normal: func(value string) string { return strings.TrimPrefix(strings.ToLower(value), "0x") },
		Check:  matches(`^[0-9a-f]{16}$`, "It isn't a number of 16 hexadecimal digits."),
		Doc:    "World Wide Name, 16 hexadecimal digits. For the buses `scsi`, `sata` and `ide`.",
	},
	{
		Name: "vendor", Place: "vendor", Check: matches(`^[ -~]{1,8}$`, "It isn't 1 to 8 printable characters."),
		Why: whenFound, Doc: "Vendor that the guest sees, up to 8 characters. For the bus `scsi`.",
	},
	{
		Name: "product", Place: "product", Check: matches(`^[ -~]{1,16}$`, "It isn't 1 to 16 printable characters."),
		Why: whenFound, Doc: "Product that the guest sees, up to 16 characters. For the bus `scsi`.",
	},
	{
		Name: "rotation_rate", Place: "target@rotation_rate", Kind: Count, Zero: true, Since: "7.3.0",
		Check: func(value string) string {
			if value == "1" || between(1025, 65534)(value) == "" {
				return ""
			}
			return "It isn't 1 (a solid state disk) or a number from 1025 to 65534."
		},
		Why: whenFound,
		Doc: "Rotations per minute that the guest sees; `1` is a solid state disk. For the buses `scsi`, `sata` and `ide`.",
	},
	{
		Name: "logical_block_size", Place: "blockio@logical_block_size", Kind: Count, Zero: true, Check: blockSize,
		Why: whenFound,
		Doc: "Logical block size in bytes that the guest sees; `0`: QEMU's default. If it is more than 512, it " +
			"requires `physical_block_size`.",
	},
	{
		Name: "physical_block_size", Place: "blockio@physical_block_size", Kind: Count, Zero: true, Check: blockSize,
		Why: whenFound, Doc: "Physical block size in bytes that the guest sees; `0`: QEMU's default.",
	},
	encryptionRow,
}, ioTuneRows)

// diskRows are DiskRows as rows.
var diskRows rows = DiskRows

// matches returns a check that a value matches a pattern.
func matches(pattern, wrong string) func(string) string {
	expression := regexp.MustCompile(pattern)
	return func(value string) string {
		if expression.MatchString(value) {
			return ""
		}
		return wrong
	}
}

// minBlock is the size of the smallest blocks, and QEMU's default.
const minBlock = 512

func blockSize(value string) string {
	if n, _ := number(value); n >= minBlock && n <= 2<<20 && n&(n-1) == 0 {
		return ""
	}
	return "It isn't a power of two from 512."
}

// ioTune is the object with the limits of a disk.
const ioTune = "io_tune"

// ioTuneRows are the limits of a disk: bytes and operations, in total or for reads and writes, each with a burst and
// the burst's length.
var ioTuneRows = func() []Attribute {
	const live = "The limit is set in the running VM."
	var all []Attribute
	row := func(name, doc string) {
		all = append(all, Attribute{
			Name: join(ioTune, name), Place: "iotune/" + name, Kind: Count, Zero: true, Live: SetBlockIOTune, Why: live,
			Doc: doc,
		})
	}
	units := []struct{ name, words string }{{"bytes_sec", "Bytes"}, {"iops_sec", "I/O operations"}}
	ways := []struct{ name, words string }{{"total", "in total"}, {"read", "of reads"}, {"write", "of writes"}}
	for _, unit := range units {
		for _, way := range ways {
			name := way.name + "_" + unit.name
			row(name, fmt.Sprintf("%s per second %s; `0`: no limit.", unit.words, way.words))
			row(name+"_max", fmt.Sprintf("%s per second during a burst; `0`: no burst.", unit.words))
			row(name+"_max_length", fmt.Sprintf("Seconds that a burst with `%s_max` may last.", name))
			all[len(all)-1].DefaultDoc = "`1`"
		}
	}
	row("size_iops_sec", "Size in bytes of an I/O operation for these limits; a larger one counts as several.")
	all[len(all)-1].DefaultDoc = "`0`, every operation counts once"
	return append(all, Attribute{
		Name: join(ioTune, "group_name"), Live: SetBlockIOTune, Why: live,
		Read: func(e *etree.Element) string {
			if limits := child(e, "iotune"); len(children(limits)) > 1 {
				return text(child(limits, "group_name"))
			}
			return "" // Without limits a group has no meaning.
		},
		Write: func(e *etree.Element, value string) error {
			limits := ensure(e, "iotune")
			setChild(limits, "group_name", value)
			dropEmpty(limits, e)
			return nil
		},
		RestartRequired: func(_ Spec, _, want string) string {
			if want == "" {
				return "A running disk can't leave its group."
			}
			return ""
		},
		Doc: "Name of a group: disks of the VM with the same name share these limits. Set at least one limit.",
	})
}()

// NestedDocs describe the objects that only hold rows, by path.
var NestedDocs = map[string]string{
	"disks.*.encryption": "LUKS encryption by QEMU, for the formats `raw` and `qcow2`. A disk with `pool` is created " +
		"encrypted; any other must be encrypted already. The image that an overlay is based on isn't encrypted.",
	"disks.*.io_tune": "Limits of the disk's I/O. They are changed while the VM runs. `total_*` can't be set " +
		"together with the matching `read_*` or `write_*`.",
}

// checkRows checks which attributes of a disk don't fit together.
func (d Disk) checkRows(c *checker, path string) {
	diskRows.validate(c, path, d.Values, func(string, string) bool { return false })
	bypasses := d.Cache == "" || d.Cache == "none" || d.Cache == "directsync"
	c.require(d.Values["io"] != "native" || bypasses, path+".io",
		`Native I/O requires the cache mode "none" or "directsync".`)
	c.require(d.Values["detect_zeroes"] != "unmap" || d.Values["discard"] != "ignore", path+".detect_zeroes",
		`It requires the value "unmap" of discard.`)
	c.require(d.Values["shareable"] != "yes" || d.Format == "" || d.Format == "raw", path+".shareable",
		`A disk that several VMs use requires the format "raw".`)
	for _, unit := range []string{"bytes_sec", "iops_sec", "bytes_sec_max", "iops_sec_max"} {
		total, read, write := d.tune("total_"+unit), d.tune("read_"+unit), d.tune("write_"+unit)
		c.require(total == "" || read == "" && write == "", join(path, ioTune+".total_"+unit),
			"A total can't be set together with reads or writes.")
	}
	d.checkEncryption(c, path)
	limited := false
	for _, a := range ioTuneRows {
		if d.Values[a.Name] == "" {
			continue
		}
		limited = limited || a.Kind == Count && d.tune(strings.TrimPrefix(a.Name, ioTune+".")) != ""
		limit, isLength := strings.CutSuffix(strings.TrimPrefix(a.Name, ioTune+"."), "_length")
		c.require(!isLength || d.Values[a.Name] == "0" || d.tune(limit) != "", join(path, a.Name),
			"A length requires "+limit+".")
		limit, isBurst := strings.CutSuffix(strings.TrimPrefix(a.Name, ioTune+"."), "_max")
		burst, _ := number(d.Values[a.Name])
		base, _ := number(d.tune(limit))
		c.require(!isBurst || burst == 0 || base > 0, join(path, a.Name), "A burst requires "+limit+".")
		c.require(!isBurst || burst == 0 || burst > base, join(path, a.Name), "A burst has to be more than the limit.")
	}
	operations := d.tune("total_iops_sec") + d.tune("read_iops_sec") + d.tune("write_iops_sec")
	c.require(operations != "" || d.tune("size_iops_sec") == "", join(path, ioTune+".size_iops_sec"),
		"It requires a limit of operations: total_iops_sec, read_iops_sec or write_iops_sec.")
	logical, _ := number(d.Values["logical_block_size"])
	physical, _ := number(d.Values["physical_block_size"])
	c.require(logical <= max(physical, minBlock), path+".logical_block_size", fmt.Sprintf(
		"QEMU refuses logical blocks that are larger than the physical ones: set physical_block_size to %d.", logical))
	c.require(limited || d.tune("group_name") == "", join(path, ioTune+".group_name"), "A group requires a limit.")
}

// applyRows patches a disk. If only the group of removed limits would remain, it is removed, too: libvirt refuses a
// group without limits.
func (d Disk) applyRows(e *etree.Element, path string) error {
	if err := diskRows.apply(e, path, d.Values); err != nil {
		return err
	}
	limits := child(e, "iotune")
	for name := range d.Values {
		if strings.HasPrefix(name, ioTune) && limits != nil && len(children(limits)) == len(children(limits, "group_name")) {
			drop(limits)
			return nil
		}
	}
	return nil
}

func (d Disk) tune(name string) string {
	if value := d.Values[join(ioTune, name)]; value != "0" {
		return value
	}
	return ""
}

// ioTuneLimits returns all limits that a disk will have. libvirt forgets the limits of a kind that a call doesn't set
// again.
func ioTuneLimits(have, want Values) string {
	limits := map[string]string{}
	for _, a := range ioTuneRows {
		value, declared := want[a.Name]
		if !declared {
			value = have[a.Name]
		}
		name := strings.TrimPrefix(a.Name, ioTune+".")
		if value != "" || have[a.Name] != "" {
			limits[name] = cmp.Or(value, "0")
		}
	}
	if limits["group_name"] == "0" {
		delete(limits, "group_name")
	}
	return FormatTexts(limits)
}
