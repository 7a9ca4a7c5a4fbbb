package virtualmachine

import (
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
)

// needs are the changes that the running VM still needs: those that it can't take without a restart, and those that the
// state doesn't show.
type needs struct {
	// restart are all changes that need a restart. fresh are those of them that the state doesn't have yet. The others
	// were staged by an earlier apply or by another tool.
	restart, fresh []domain.Change
	// drifted are those of fresh that someone made on the host, see driftedChanges.
	drifted []domain.Change
	// atOnce are those that the running VM can take, and that the state doesn't have yet.
	atOnce []domain.Change
	// unmade are live changes that the state already has: an earlier update wrote them to the definition, and failed
	// before it changed the running VM.
	unmade []domain.Change
	// undefined are devices that the running VM has as declared, and its definition lacks: an update was to remove them,
	// and the guest hasn't released them, or a user has attached them with --live alone.
	undefined []domain.Change
	// rebuilt are the changes that need a new VM.
	rebuilt []domain.Change
	// takenBack says that the definition loses what an apply that failed has left there. left are the paths of what
	// stays.
	takenBack bool
	left      []string
}

// unseen reports whether the apply makes the definitions more alike in ways that no other attribute shows.
func (n needs) unseen() bool { return len(n.unmade)+len(n.undefined) > 0 || n.takenBack }

// specs returns the definition in the state and the declared one.
func (p planning) specs() (have, want domain.Spec) { return p.state.spec(nil), p.config.spec(p.state) }

// restartNeeds classifies the declared changes, compared with the state and with the running VM.
func (p planning) restartNeeds(have, want domain.Spec) needs {
	want = p.withRunningDisks(p.replacedDevices(want))
	var n needs
	changes := p.definitionChanges(have, want)
	for _, c := range changes {
		if c.Replace {
			n.rebuilt = append(n.rebuilt, c)
		}
	}
	if p.live == nil {
		return n
	}
	running := domain.FollowDefinition(domain.WithoutLibvirtDefaults(*p.live, have), have, want)
	for _, path := range p.staysRunning(want) {
		running, _ = running.WithoutDevice(path)
	}
	if p.transient || !p.config.UpdatePolicy.IsUnknown() && !p.config.leavesHeld() {
		running.Held = nil // The apply asks the guest again.
	}
	unlike := p.definitionChanges(running, p.withItsMedium(want))
	n.undefined = p.undefinedDevices(want, slices.Concat(changes, unlike))
	for _, c := range unlike {
		shown := slices.ContainsFunc(changes, func(other domain.Change) bool { return isPartOf(c.Path, other.Path) }) ||
			p.lostMediumDrive(c)
		switch {
		case c.Replace:
		case c.Live && !shown && p.state.RestartRequired.ValueBool():
			n.unmade = append(n.unmade, c)
		case c.Live && shown:
			n.atOnce = append(n.atOnce, c)
		case c.Live:
		default:
			n.restart = append(n.restart, c)
			if shown {
				n.fresh = append(n.fresh, c)
			}
		}
	}
	n.drifted = p.driftedChanges(want, n.fresh)
	n.restart, n.fresh = append(n.restart, p.passwordChanges()...), append(n.fresh, p.passwordChanges()...)
	return n
}

// undefinedDevices returns needs.undefined. The others are changes of devices that the state or the running VM lacks.
func (p planning) undefinedDevices(want domain.Spec, others []domain.Change) []domain.Change {
	if p.agreed == nil || p.transient {
		return nil
	}
	missing := slices.DeleteFunc(p.definitionChanges(*p.agreed, want), func(c domain.Change) bool {
		block, key, ok := strings.Cut(c.Path, ".")
		return !ok || strings.Contains(key, ".") || !slices.Contains(keyed, block) || !c.Live
	})
	return without(missing, others)
}

// definitionChanges returns the changes from have to want. Changes of a disk's source have the declared attribute's
// name, because a definition names volumes and own disks as files or block devices.
func (p planning) definitionChanges(have, want domain.Spec) []domain.Change {
	changes := domain.Changes(have, want)
	if len(changes) == 0 {
		return nil
	}
	disks := elements(p.config.Disks)
	for i, c := range changes {
		steps := strings.Split(c.Path, ".")
		if len(steps) != 3 || steps[0] != "disks" || steps[2] != "file" && steps[2] != "block" {
			continue
		}
		declared := open(disks[steps[1]])
		for _, name := range []string{"volume", "pool"} {
			if text(declared.string(name)) != "" {
				changes[i].Path = "disks." + steps[1] + "." + name
			}
		}
	}
	return changes
}

// isPartOf reports whether two changes are about the same thing. A device may be new compared with the state, which
// doesn't have undeclared devices, and exist in the running VM.
func isPartOf(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// configured returns the fresh changes that come from the configuration.
func (n needs) configured() []domain.Change {
	return slices.DeleteFunc(slices.Clone(n.fresh), func(c domain.Change) bool {
		return slices.ContainsFunc(n.drifted, func(d domain.Change) bool { return d.Path == c.Path })
	})
}

// withoutDrifts removes the changes of disks whose sources are refused, because a restart doesn't help with them.
func (n needs) withoutDrifts(drifts []domain.SourceDrift) needs {
	refused := func(c domain.Change) bool {
		return slices.ContainsFunc(drifts, func(d domain.SourceDrift) bool {
			return c.Path == "disks."+d.Key || strings.HasPrefix(c.Path, "disks."+d.Key+".")
		})
	}
	n.restart, n.fresh = slices.DeleteFunc(n.restart, refused), slices.DeleteFunc(n.fresh, refused)
	n.unmade, n.drifted = slices.DeleteFunc(n.unmade, refused), slices.DeleteFunc(n.drifted, refused)
	n.atOnce = slices.DeleteFunc(n.atOnce, refused)
	return n
}

func (n needs) replacePaths() path.Paths {
	var paths path.Paths
	for _, c := range n.rebuilt {
		paths.Append(attrpath.Parse(c.Path, keyed...))
	}
	return paths
}
