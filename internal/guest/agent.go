package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Agent is what an agent reports about itself.
type Agent struct {
	Version string
	// Commands are the names of the commands that it runs, sorted.
	Commands []string
}

// needed are the commands without which too little is known of a guest; they are KubeVirt's.
var needed = []string{
	"guest-get-fsinfo", "guest-get-host-name", "guest-get-osinfo", "guest-get-time", "guest-get-timezone",
	"guest-get-users", "guest-info", "guest-network-get-interfaces", "guest-ping", "guest-shutdown",
}

// Lacks returns the needed commands that the agent doesn't run.
func (a *Agent) Lacks() []string {
	return slices.DeleteFunc(slices.Clone(needed), func(c string) bool { return slices.Contains(a.Commands, c) })
}

// refusals are the commands behind the groups that libvirt requests.
var refusals = map[Group]string{
	GroupFilesystems: "guest-get-fsinfo", GroupHostname: "guest-get-host-name", GroupOS: "guest-get-osinfo",
	GroupTimezone: "guest-get-timezone", GroupUsers: "guest-get-users", GroupInterfaces: "guest-network-get-interfaces",
}

// Lacks returns the needed commands that the agent was seen not to run. exact reports whether these are all: without
// raw commands, only the commands that libvirt uses were tried.
func (r *Report) Lacks() (lacks []string, exact bool) {
	if r.Agent != nil {
		return r.Agent.Lacks(), true
	}
	for g, command := range refusals {
		if r.Unavailable[g].Reason == Refused {
			lacks = append(lacks, command)
		}
	}
	slices.Sort(lacks)
	return lacks, false
}

// Counters are the guest's counters of a network interface.
type Counters struct {
	RXBytes   uint64 `json:"rx-bytes"`
	RXPackets uint64 `json:"rx-packets"`
	RXErrors  uint64 `json:"rx-errs"`
	RXDropped uint64 `json:"rx-dropped"`
	TXBytes   uint64 `json:"tx-bytes"`
	TXPackets uint64 `json:"tx-packets"`
	TXErrors  uint64 `json:"tx-errs"`
	TXDropped uint64 `json:"tx-dropped"`
}

// askRaw requests what libvirt has no call for.
func (a *agentQuery) askRaw(ctx context.Context) error {
	r := a.report
	questions := []struct {
		group   Group
		command string
		parse   func(json.RawMessage) error
	}{
		{GroupAgent, "guest-info", func(answer json.RawMessage) (err error) {
			r.Agent, err = parseAgent(answer)
			return err
		}},
		{GroupFSFreeze, "guest-fsfreeze-status", func(answer json.RawMessage) error {
			return json.Unmarshal(answer, &r.FSFreeze)
		}},
		{GroupCounters, "guest-network-get-interfaces", func(answer json.RawMessage) (err error) {
			r.Counters, err = parseCounters(answer)
			return err
		}},
	}
	for _, q := range questions {
		if !a.wantsGroup(q.group) {
			continue
		}
		if err := a.sendCommand(ctx, q.group, q.command, nil, q.parse); err != nil {
			return err
		}
	}
	return nil
}

// sendCommand sends one command and parses its answer. An answer that can't be parsed is no error: the group is
// unavailable.
func (a *agentQuery) sendCommand(
	ctx context.Context, g Group, command string, arguments any, parse func(json.RawMessage) error,
) error {
	request, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}{command, arguments})
	if err != nil {
		return fmt.Errorf("writing a command for the guest agent: %w", err)
	}
	return askOnce(ctx, a, g,
		func(ctx context.Context) (string, error) { return a.conn.AgentCommand(ctx, a.uuid, string(request)) },
		func(answer string) {
			var reply struct {
				Return json.RawMessage `json:"return"`
			}
			err := json.Unmarshal([]byte(answer), &reply)
			if err == nil && reply.Return == nil {
				err = errors.New("it has no return value")
			}
			if err == nil {
				err = parse(reply.Return)
			}
			if err != nil {
				a.report.Unavailable[g] = Unavailable{NotReported, fmt.Sprintf("the answer to %s can't be read: %v", command, err)}
			}
		})
}

// parseAgent parses the answer to guest-info.
func parseAgent(answer json.RawMessage) (*Agent, error) {
	var reply struct {
		Version  string `json:"version"`
		Commands []struct {
			Name    string `json:"name"`
			Enabled bool   `json:"enabled"`
		} `json:"supported_commands"`
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return nil, err
	}
	if reply.Version == "" {
		return nil, errors.New("it has no version")
	}
	a := &Agent{Version: reply.Version}
	for _, c := range reply.Commands {
		if c.Enabled {
			a.Commands = append(a.Commands, c.Name)
		}
	}
	slices.Sort(a.Commands)
	return a, nil
}

// parseCounters parses the answer to guest-network-get-interfaces. It leaves out interfaces without statistics.
func parseCounters(answer json.RawMessage) (map[string]Counters, error) {
	var reply []struct {
		Name       string    `json:"name"`
		Statistics *Counters `json:"statistics"`
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return nil, err
	}
	all := make(map[string]Counters, len(reply))
	for _, i := range reply {
		if i.Statistics != nil {
			all[i.Name] = *i.Statistics
		}
	}
	return all, nil
}
