package guest

import (
	"context"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// groups are the groups that one call of libvirt reports, without marking the domain as tainted.
var groups = map[Group]libvirt.GuestInfoGroups{
	GroupOS:          libvirt.GuestOSInfo,
	GroupHostname:    libvirt.GuestHostname,
	GroupTimezone:    libvirt.GuestTimezoneInfo,
	GroupInterfaces:  libvirt.GuestInterfaces,
	GroupUsers:       libvirt.GuestUsers,
	GroupFilesystems: libvirt.GuestFilesystems,
	GroupDisks:       libvirt.GuestDisks,
	GroupLoad:        libvirt.GuestLoadInfo,
}

func (a *agentQuery) wantsGroup(g Group) bool { return slices.Contains(a.options.Only, g) }

// askGroups requests all groups at once. It requests those that the agent refuses again, one by one: these answers say
// why.
func (a *agentQuery) askGroups(ctx context.Context) error {
	var together libvirt.GuestInfoGroups
	for g, flag := range groups {
		// libvirt reports the load since 11.2: an older version would refuse the call, and the answer for the other groups
		// would no longer be exact.
		if a.wantsGroup(g) && g != GroupLoad {
			together |= flag
		}
	}
	ask := func(flags libvirt.GuestInfoGroups) func(context.Context) (*libvirt.GuestInfo, error) {
		return func(ctx context.Context) (*libvirt.GuestInfo, error) { return a.conn.GuestInfo(ctx, a.uuid, flags) }
	}
	if together != 0 {
		all := func(info *libvirt.GuestInfo) { a.report.Info = *info }
		if err := askOnce(ctx, a, "", ask(together), all); err != nil {
			return err
		}
		delete(a.report.Unavailable, "")
	}
	for _, g := range Groups() {
		flag, grouped := groups[g]
		if !grouped || !a.wantsGroup(g) || a.report.hasGroup(g) {
			continue
		}
		one := func(info *libvirt.GuestInfo) { a.report.addGroup(g, info) }
		if err := askOnce(ctx, a, g, ask(flag), one); err != nil {
			return err
		}
	}
	a.report.explainDiskBus()
	return nil
}

// explainDiskBus records why no disk has a bus.
func (r *Report) explainDiskBus() {
	told := func(d libvirt.GuestDisk) bool { return d.GuestBus != "" }
	if len(r.Info.Disks) > 0 && !slices.ContainsFunc(r.Info.Disks, told) {
		r.Unavailable[DiskBus] = Unavailable{Unsupported, "its libvirt reports no bus of any disk"}
	}
}

// addGroup stores one group, or records that the agent left it out without saying why.
func (r *Report) addGroup(g Group, info *libvirt.GuestInfo) {
	switch g {
	case GroupOS:
		r.Info.OS = info.OS
	case GroupHostname:
		r.Info.Hostname = info.Hostname
	case GroupTimezone:
		r.Info.Timezone = info.Timezone
	case GroupInterfaces:
		r.Info.Interfaces = info.Interfaces
	case GroupUsers:
		r.Info.Users = info.Users
	case GroupFilesystems:
		r.Info.Filesystems = info.Filesystems
	case GroupDisks:
		r.Info.Disks = info.Disks
	case GroupLoad:
		r.Info.Load = info.Load
	default:
	}
	if !r.hasGroup(g) {
		r.Unavailable[g] = Unavailable{Reason: NotReported}
	}
}

// hasGroup reports whether a group was reported.
func (r *Report) hasGroup(g Group) bool {
	switch g {
	case GroupOS:
		return r.Info.OS != nil
	case GroupHostname:
		return r.Info.Hostname != nil
	case GroupTimezone:
		return r.Info.Timezone != nil
	case GroupInterfaces:
		return r.Info.Interfaces != nil
	case GroupUsers:
		return r.Info.Users != nil
	case GroupFilesystems:
		return r.Info.Filesystems != nil
	case GroupDisks:
		return r.Info.Disks != nil
	case GroupLoad:
		return r.Info.Load != nil
	case GroupVCPUs:
		return r.VCPUs != nil
	case GroupAgent:
		return r.Agent != nil
	case GroupFSFreeze:
		return r.FSFreeze != nil
	case GroupCounters:
		return r.Counters != nil
	default:
		return r.Probe != nil
	}
}

// giveUp records the reason for those of the groups that have neither a value nor a reason.
func (r *Report) giveUp(why Unavailable, all []Group) {
	for _, g := range all {
		if _, said := r.Unavailable[g]; !said && !r.hasGroup(g) {
			r.Unavailable[g] = why
		}
	}
}
