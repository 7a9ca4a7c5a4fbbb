package observe

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	guestagent "github.com/virtfleet/terraform-provider-virtfleet/internal/guest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// result combines the answers.
func (o *observing) result() *Observation {
	out := &Observation{
		VM: o.vm, Facts: o.vm.Facts(), Guest: o.report, Interfaces: status.Interfaces(o.interfaceSources()),
		Rule: o.rule, Unavailable: o.lack,
	}
	if o.lack == nil {
		out.Unavailable = map[string]string{}
	}

	if d := o.vm.Entry.Parse().Current(); d != nil {
		out.BootMemory = d.BootMemory()
	}

	if o.log != nil {
		out.QEMULog = o.log.End()
		out.Facts.StartedSince = o.log.Since(o.vm.Active)
	}

	out.Facts.Doubles = o.doubles

	if o.vm.BrokeInPostCopy() {
		out.Facts.Resumer = o.resumer
	}

	o.migrating(out)
	o.pausing(&out.Facts)
	o.agentFacts(&out.Facts)
	o.diskFacts(out)

	if why, unknown := o.lack[PartPorts]; unknown {
		out.Facts.CutOff = status.Unseen[[]status.CutOff](why)
	} else {
		out.Facts.CutOff = status.Seen(o.cutOff)
	}

	if o.blockers != nil {
		out.Facts.Blockers = status.Seen(o.blockers)
		out.Facts.StorageBlockers = status.Seen(migration.StorageBlockers(o.blockers))
	} else {
		out.Facts.Blockers = status.Unseen[[]status.Blocker](o.lack[PartBlockers])
		out.Facts.StorageBlockers = out.Facts.Blockers
	}

	return out
}

// migrating describes the migration in progress, otherwise the last one.
func (o *observing) migrating(out *Observation) {
	last := o.vm.LastMigration()

	s, hosts := inventory.Underway(o.vm, o.job)
	if s == nil || out.Facts.PostCopy() == status.PostCopyLost {
		out.Migration = last

		return
	}

	facts := &out.Facts
	facts.Migrating, facts.ActiveHosts = true, hosts
	facts.MigrationSource = hosts[o.vm.Host] == status.RoleSource

	record := s.Record("", "")
	if last != nil && !last.Completed() && last.SourceHost == s.SourceHost && last.TargetHost == s.TargetHost {
		record.Transport, record.Policy, record.Options = last.Transport, last.Policy, last.Options
		record.Start = last.Start // libvirt's start time differs by a second with each question.
	}

	facts.MigratingSince, out.Migration = record.Start, &record
}

// pausing sets since when a job has kept the guest paused.
func (o *observing) pausing(f *status.Facts) {
	if o.job != nil && o.job.Type.Active() && o.vm.State == libvirt.Paused && o.vm.Reason == o.job.Operation {
		switch o.job.Operation {
		case libvirt.OperationSave, libvirt.OperationDump:
			f.PausedSince = inventory.Since(o.job)
		}
	}
}

// agentFacts derives facts from the agent's answers, or its silence.
func (o *observing) agentFacts(f *status.Facts) {
	gap := o.report.Unavailable[guestagent.GroupInterfaces]

	switch {
	case o.report.AgentConnected:
		f.AgentConnected, f.AgentAnswers = true, status.Seen(true)
	case gap.Reason == guestagent.TimedOut:
		f.AgentAnswers = status.Seen(false)
		f.AgentAnswers.Why = gap.Detail
	default:
		f.AgentAnswers = status.Unseen[bool](gap.String())
	}

	switch lacks, exact := o.report.Lacks(); {
	case !o.report.AgentConnected:
		f.AgentLacks = status.Unseen[[]string](gap.String())
	case exact || len(lacks) > 0:
		f.AgentLacks = status.Seen(lacks)
	default:
		f.AgentLacks = status.Unseen[[]string]("the agent refused none of the commands that were needed; to list the " +
			"others, set raw_commands, which taints the domain")
	}
}

// diskFacts sets for each disk whether its source is available. An error that paused the guest takes precedence over a
// source that can be opened.
func (o *observing) diskFacts(out *Observation) {
	disks := o.sources()

	if o.diskErrors != nil {
		out.DiskErrors = make(map[string]libvirt.DiskError)

		for key, d := range disks {
			if e, failed := o.diskErrors[d.Target]; failed {
				out.DiskErrors[key] = e
			}
		}
	}

	if o.disks == nil {
		out.Facts.Disks = status.Unseen[[]status.Disk](o.lack[PartDisks])

		return
	}

	facts := []status.Disk{}

	for _, key := range slices.Sorted(maps.Keys(disks)) {
		d := o.diskFact(disks[key], out.DiskErrors[key])
		d.Key = key
		facts = append(facts, d)
	}

	out.Facts.Disks = status.Seen(facts)
}

// diskFact returns whether a disk's source is available. failure is the error that paused the guest, if one did.
func (o *observing) diskFact(d domain.Disk, failure libvirt.DiskError) status.Disk {
	info := o.disks[d.Target]

	// QEMU keeps the last error until the next one: a guest that runs again has recovered from it.
	if o.vm.StateFacts().GuestRuns() {
		failure = ""
	}

	switch {
	case failure == libvirt.DiskErrorNoSpace:
		return status.Disk{Ready: status.False, Why: "there is no space left for it on its host"}
	case failure != "":
		return status.Disk{Ready: status.False, Why: "reading or writing it failed"}
	case !o.opens(d):
		return status.Disk{
			Ready: status.Unknown, Why: "only a running QEMU reaches its storage, and the VM is off",
		}
	case errors.Is(info.Err, libvirt.ErrUnsupported), errors.Is(info.Err, libvirt.ErrBusy):
		return status.Disk{Ready: status.Unknown, Why: inventory.PlainCause(info.Err)}
	case info.Err != nil:
		return status.Disk{Ready: status.False, Why: inventory.PlainCause(info.Err)}
	default:
		return o.images[d.Target]
	}
}

func (o *observing) interfaceSources() status.Sources {
	s := status.Sources{Leases: o.leases, ARP: o.arp}

	if d := o.vm.Entry.Parse().Current(); d != nil {
		for _, a := range d.Attachments() {
			s.Domain = append(s.Domain, status.DomainInterface{
				Name: a.Key, MAC: a.MAC, Device: a.Device, LinkUp: a.LinkUp, Queues: a.Queues,
			})
		}
	}

	for _, i := range o.report.Info.Interfaces {
		g := status.GuestInterface{Name: i.Name, MAC: i.MAC}

		for _, a := range i.Addresses {
			if ip, err := netip.ParseAddr(a.IP); err == nil {
				g.Addresses = append(g.Addresses, ip)
			}
		}

		s.Agent = append(s.Agent, g)
	}

	return s
}
