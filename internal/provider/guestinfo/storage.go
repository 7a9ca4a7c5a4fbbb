package guestinfo

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// filesystem is a mounted filesystem.
type filesystem struct {
	MountPoint *string          `tfsdk:"mount_point"`
	Name       *string          `tfsdk:"name"`
	Type       *string          `tfsdk:"type"`
	TotalBytes *int64           `tfsdk:"total_bytes"`
	UsedBytes  *int64           `tfsdk:"used_bytes"`
	Disks      []filesystemDisk `tfsdk:"disks"`
}

// filesystemDisk is a disk that a filesystem is on.
type filesystemDisk struct {
	Target *string `tfsdk:"target"`
	Serial *string `tfsdk:"serial"`
	Device *string `tfsdk:"device"`
}

// disk is a disk or partition as the guest sees it.
type disk struct {
	Name         *string  `tfsdk:"name"`
	Target       *string  `tfsdk:"target"`
	GuestAlias   *string  `tfsdk:"guest_alias"`
	Bus          *string  `tfsdk:"bus"`
	Serial       *string  `tfsdk:"serial"`
	Partition    *bool    `tfsdk:"partition"`
	Dependencies []string `tfsdk:"dependencies"`
}

func filesystemsAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		Computed:            true,
		MarkdownDescription: "Filesystems that are mounted from disks, with their usage.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"mount_point": value.ReportedString("Directory where the filesystem is mounted."),
			"name":        value.ReportedString("Name of the filesystem's device in the guest, such as `vda1`."),
			"type":        value.ReportedString("Type, such as `ext4`."),
			"total_bytes": value.ReportedNumber("Size, as the agent reports it. Null if it doesn't report it."),
			"used_bytes":  value.ReportedNumber("Used bytes. Null if the agent doesn't report it."),
			"disks": schema.ListNestedAttribute{
				Computed:            true,
				MarkdownDescription: "Disks that the filesystem is on.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"target": value.ReportedString("Name of the disk in the VM's definition, such as `vda`."),
					"serial": value.ReportedString("Serial number."),
					"device": value.ReportedString("Device in the guest, such as `/dev/vda`."),
				}},
			},
		}},
	}
}

func disksAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		Computed:            true,
		MarkdownDescription: "Disks and partitions, as the guest sees them.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"name":        value.ReportedString("Device in the guest, such as `/dev/vda`."),
			"target":      value.ReportedString("Name of the disk in the VM's definition, such as `vda`."),
			"guest_alias": value.ReportedString("Another name of the device in the guest, such as its device mapper name."),
			"bus": value.ReportedString("Bus that the guest sees the disk on. Null if the host's libvirt doesn't " +
				"report it; 9.0 doesn't."),
			"serial": value.ReportedString("Serial number."),
			"partition": schema.BoolAttribute{
				Computed: true, MarkdownDescription: "Whether the device is a partition.",
			},
			"dependencies": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Devices that this device consists of, such as the disk of a partition.",
			},
		}},
	}
}

func fromFilesystems(all []libvirt.GuestFilesystem) []filesystem {
	if all == nil {
		return nil
	}
	models := []filesystem{}
	for _, f := range all {
		m := filesystem{
			MountPoint: value.TextOrNull(f.MountPoint), Name: value.TextOrNull(f.Name), Type: value.TextOrNull(f.Type),
			TotalBytes: value.WholeOrNull(f.TotalBytes), UsedBytes: value.WholeOrNull(f.UsedBytes), Disks: []filesystemDisk{},
		}
		for _, d := range f.Disks {
			m.Disks = append(m.Disks, filesystemDisk{
				Target: value.TextOrNull(d.Alias), Serial: value.TextOrNull(d.Serial), Device: value.TextOrNull(d.Device),
			})
		}
		models = append(models, m)
	}
	return models
}

func fromDisks(all []libvirt.GuestDisk) []disk {
	if all == nil {
		return nil
	}
	models := []disk{}
	for _, d := range all {
		models = append(models, disk{
			Name: value.TextOrNull(d.Name), Target: value.TextOrNull(d.Alias), GuestAlias: value.TextOrNull(d.GuestAlias),
			Bus:    value.TextOrNull(d.GuestBus),
			Serial: value.TextOrNull(d.Serial), Partition: d.Partition, Dependencies: append([]string{}, d.Dependencies...),
		})
	}
	return models
}
