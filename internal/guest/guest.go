package guest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// defaultTimeout bounds one request. A running agent answers within milliseconds, and libvirt itself gives up after 5
// s: its error says more than our timeout.
const defaultTimeout = 6 * time.Second

// Group is a group of values that an agent reports together.
type Group string

// The groups. GroupAgent and those after it require raw commands.
const (
	GroupOS          Group = "os"
	GroupHostname    Group = "hostname"
	GroupTimezone    Group = "timezone"
	GroupInterfaces  Group = "interfaces"
	GroupUsers       Group = "users"
	GroupFilesystems Group = "filesystems"
	GroupDisks       Group = "disks"
	GroupLoad        Group = "load"
	GroupVCPUs       Group = "vcpus"
	GroupAgent       Group = "agent"
	GroupFSFreeze    Group = "fsfreeze"
	GroupCounters    Group = "counters"
	GroupProbe       Group = "probe"
)

// DiskBus is a part of GroupDisks that older versions of libvirt leave out.
const DiskBus Group = "disks.bus"

// Groups returns all groups except GroupProbe, which only exists if it was requested.
func Groups() []Group {
	return []Group{
		GroupAgent, GroupCounters, GroupDisks, GroupFilesystems, GroupFSFreeze, GroupHostname, GroupInterfaces, GroupLoad,
		GroupOS, GroupTimezone, GroupUsers, GroupVCPUs,
	}
}

// Conn is the host that runs the VM.
type Conn interface {
	GuestInfo(ctx context.Context, uuid string, groups libvirt.GuestInfoGroups) (*libvirt.GuestInfo, error)
	GuestVCPUs(ctx context.Context, uuid string) (*libvirt.GuestVCPUs, error)
	AgentCommand(ctx context.Context, uuid, command string) (string, error)
}

// Options say what to request.
type Options struct {
	// Only limits the requests to these groups; nil means all.
	Only []Group
	// RawCommands also requests what only commands of the agent's own protocol report: GroupAgent, GroupFSFreeze and
	// GroupCounters. libvirt marks a domain as tainted when it sends one.
	RawCommands bool
	// Probe is a command to run in the guest, nil for none. It is a raw command as well.
	Probe *Probe
	// ChannelClosed says that no program in the guest had opened the agent's channel when the VM was last read. It
	// explains an agent that doesn't answer.
	ChannelClosed bool
	// Timeout bounds each request. After the first request that times out, no others are sent. 0 means defaultTimeout.
	Timeout time.Duration
}

// Report is what the agent reported.
type Report struct {
	// AgentConnected says that the agent answered, even if only with a refusal.
	AgentConnected bool
	// Info holds the reported values; those that weren't reported are nil.
	Info libvirt.GuestInfo
	// VCPUs, Agent, FSFreeze and Counters are nil unless they were requested and reported. Counters are by the interface's
	// name in the guest.
	VCPUs    *libvirt.GuestVCPUs
	Agent    *Agent
	FSFreeze *string
	Counters map[string]Counters
	// Probe is nil unless it was requested and ran.
	Probe *ProbeResult
	// Unavailable says why each of the other groups wasn't reported.
	Unavailable map[Group]Unavailable
}

// Silent returns the report of an agent that needn't be asked.
func Silent(why Reason, detail string) *Report {
	r := &Report{Unavailable: make(map[Group]Unavailable)}
	r.giveUp(Unavailable{why, detail}, Groups())
	return r
}

// Info asks the agent. It returns an error only if the caller gave up or the host has no such domain: an agent that
// doesn't answer is part of the report.
func Info(ctx context.Context, conn Conn, uuid string, o Options) (*Report, error) {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Only == nil {
		o.Only = Groups()
	}
	a := agentQuery{conn: conn, uuid: uuid, options: o, report: &Report{Unavailable: make(map[Group]Unavailable)}}
	err := a.readAll(ctx)
	switch {
	case err == nil:
		return a.report, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, libvirt.ErrNotFound), errors.Is(err, libvirt.ErrUnreachable):
		return nil, err
	}
	rest := o.Only
	if o.Probe != nil {
		rest = append([]Group{GroupProbe}, rest...)
	}
	gap := unavailableFrom(err)
	if o.ChannelClosed && gap.Reason == TimedOut {
		gap.Reason = NotConnected
	}
	a.report.giveUp(gap, rest)
	return a.report, nil
}

// agentQuery is one round of requests.
type agentQuery struct {
	conn    Conn
	uuid    string
	options Options
	report  *Report
}

// readAll sends one request after the other, because the agent answers only one at a time. An error ends the round: the
// agent doesn't answer, or the domain is gone.
func (a *agentQuery) readAll(ctx context.Context) error {
	if err := a.askGroups(ctx); err != nil {
		return err
	}
	if err := a.askVCPUs(ctx); err != nil {
		return err
	}
	if !a.options.RawCommands {
		gap := Unavailable{NotAsked, "raw commands taint the domain"}
		a.report.giveUp(gap, []Group{GroupAgent, GroupFSFreeze, GroupCounters})
	} else if err := a.askRaw(ctx); err != nil {
		return err
	}
	if a.options.Probe == nil {
		return nil
	}
	return a.runProbe(ctx)
}

// askOnce sends one request within its timeout. It distinguishes a refusal, which ends only this request, from silence,
// which ends the round.
func askOnce[T any](
	ctx context.Context, a *agentQuery, g Group, ask func(context.Context) (T, error), take func(T),
) error {
	asking, cancel := context.WithTimeoutCause(ctx, a.options.Timeout,
		fmt.Errorf("the guest agent didn't answer within %s", a.options.Timeout))
	defer cancel()
	answer, err := ask(asking)
	switch {
	case err == nil:
		a.report.AgentConnected = true
		take(answer)
		return nil
	case isRefusal(err):
		a.report.AgentConnected = a.report.AgentConnected || errors.Is(err, libvirt.ErrAgentFailed)
		a.report.Unavailable[g] = unavailableFrom(err)
		return nil
	case ctx.Err() == nil && asking.Err() != nil:
		return &timeoutError{cause: context.Cause(asking)}
	default:
		return err
	}
}

func (a *agentQuery) askVCPUs(ctx context.Context) error {
	if !a.wantsGroup(GroupVCPUs) {
		return nil
	}
	return askOnce(ctx, a, GroupVCPUs,
		func(ctx context.Context) (*libvirt.GuestVCPUs, error) { return a.conn.GuestVCPUs(ctx, a.uuid) },
		func(cpus *libvirt.GuestVCPUs) { a.report.VCPUs = cpus })
}
