package domain

import (
	"fmt"
	"math"
	"strings"

	"github.com/beevik/etree"
)

// BlkioDevices is the attribute for the limits of the VM on block devices of the host.
const BlkioDevices = "platform.resources.blkio_devices"

// resourcesGroup is the whole VM's share of its host.
var resourcesGroup = Group{
	Path: "platform.resources",
	Doc:  "Resource limits of the whole VM.",
	Attributes: []Attribute{
		{
			Name: "partition", Place: "resource/partition", Echo: true, Check: absolute,
			Why: "The VM is put into its resource partition when it starts.",
			Doc: "Resource partition (cgroup) of the host, such as `/machine/prod`, which the host must have. `\"\"` " +
				"removes it.",
		},
		{
			Name: "blkio_weight", Place: "blkiotune/weight", Kind: Count, Zero: true, Check: between(1, 10000),
			Live: SetBlkioWeight, RestartRequired: cantBeUndone, Why: "The weight is set in the running VM.",
			Doc: "Weight of its disk I/O from 100 to 1000, compared with other VMs of the host; `0`: the host's default.",
		},
		{
			Name: "blkio_devices", Kind: Table, Read: readBlkioDevices, Write: writeBlkioDevices, Columns: blkioColumns,
			Live: SetBlkioDevices, Why: "Weights and limits are set in the running VM.",
			RestartRequired: func(_ Spec, have, want string) string {
				next := ParseTable(want)
				for path, row := range ParseTable(have) {
					if row["weight"] != "" && next[path]["weight"] == "" {
						return "The weight of a device can be changed in a running VM, but not removed."
					}
				}
				return ""
			},
			Key: func(path string) string {
				if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, ",\n") {
					return fmt.Sprintf("The key %q isn't the absolute path of a block device of the host.", path)
				}
				return ""
			},
			Check: func(value string) string { return emptyRow(ParseTable(value), "a weight or a limit") },
			Doc: "Limits of the VM's I/O on block devices by path, such as `/dev/sda`, which each host of the VM must have. " +
				"They apply in addition to `disks.<key>.io_tune`. If you set the map, list every device. `{}` removes them.",
		},
	},
}

// blkioColumns are the limits of the VM on a block device of the host.
var blkioColumns = []Attribute{
	{
		Name: "weight", Place: "weight", Kind: Count, Check: between(1, 10000),
		Doc: "Weight of the VM's I/O on the device from 100 to 1000, compared with other VMs of the host. Needs cgroup v2 " +
			"on Linux 5.0 and later.",
	},
	blkioLimit("read_bytes_sec", "Bytes that the VM reads per second.", math.MaxInt64),
	blkioLimit("write_bytes_sec", "Bytes that the VM writes per second.", math.MaxInt64),
	blkioLimit("read_iops_sec", "Read requests of the VM per second.", math.MaxUint32),
	blkioLimit("write_iops_sec", "Write requests of the VM per second.", math.MaxUint32),
}

func blkioLimit(name, doc string, most int) Attribute {
	return Attribute{Name: name, Place: name, Kind: Count, Check: between(1, most), Doc: doc}
}

func readBlkioDevices(root *etree.Element) string {
	all := map[string]Row{}
	for _, e := range children(child(root, "blkiotune"), "device") {
		row := Row{}
		rows(blkioColumns).read(e, Values(row))
		all[text(child(e, "path"))] = row
	}
	return FormatTable(all)
}

// writeBlkioDevices makes the devices match the rows. An existing element keeps what no column describes.
func writeBlkioDevices(root *etree.Element, value string) error {
	all := ParseTable(value)
	tune := child(root, "blkiotune")
	if len(all) > 0 {
		tune = ensure(root, "blkiotune", "name", "uuid", "title", "description", "metadata", "maxMemory", "memory",
			"currentMemory")
	}
	there := map[string]*etree.Element{}
	for _, e := range children(tune, "device") {
		path := text(child(e, "path"))
		if there[path] = e; all[path] == nil {
			drop(e)
		}
	}
	for _, path := range sortedKeys(all) {
		e := there[path]
		if e == nil {
			e = element("device")
			insert(tune, e, "weight", "device")
			add(e, "path").SetText(path)
		}
		whole := Values{}
		for _, column := range blkioColumns {
			whole[column.Name] = all[path][column.Name]
		}
		if err := rows(blkioColumns).apply(e, path, whole); err != nil {
			return err
		}
	}
	dropEmpty(tune, root)
	return nil
}
