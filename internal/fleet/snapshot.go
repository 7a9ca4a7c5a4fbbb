package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// snapshot asks every host that is not fenced, in parallel, and returns what
// they said, in the order of their names. A host that answered less than
// viewAge ago is not asked again.
func (f *Fleet) snapshot(ctx context.Context) ([]answer, error) {
	answers := make([]answer, len(f.hosts))

	var wg sync.WaitGroup

	for i, h := range f.hosts {
		answers[i].host = h
		if h.cfg.Fenced {
			continue
		}

		wg.Go(func() {
			v, err := f.viewOf(ctx, h)
			if err != nil {
				v = &view{err: err, record: &recordCell{}}
			}

			answers[i].view, answers[i].info, answers[i].err = v, v.info, v.err
		})
	}

	wg.Wait()

	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}

	return answers, duplicateHosts(answers)
}

// forgetAll makes the next snapshot ask every host again.
func (f *Fleet) forgetAll() {
	for _, h := range f.hosts {
		h.forget()
	}
}

// answer is what one host said to a question about the fleet.
type answer struct {
	host *host
	view *view             // nil for a question about one machine, or a fenced host
	info *libvirt.HostInfo // nil when the host did not answer
	vm   *entry            // the machine that was asked for, nil: not there
	err  error             // why the host did not answer
}

func (a answer) fenced() bool { return a.host.cfg.Fenced }

// about are the answers with what their views have of the machine.
func about(answers []answer, uuid string) []answer {
	of := slices.Clone(answers)
	for i := range of {
		if v := of[i].view; v != nil {
			of[i].vm = v.domains[uuid]
		}
	}

	return of
}

// look reads one machine from one host.
type look func(context.Context, *libvirt.Host) (*libvirt.Domain, error)

func byUUID(uuid string) look {
	return func(ctx context.Context, h *libvirt.Host) (*libvirt.Domain, error) { return h.Domain(ctx, uuid) }
}

func byName(name string) look {
	return func(ctx context.Context, h *libvirt.Host) (*libvirt.Domain, error) { return h.DomainByName(ctx, name) }
}

// askAll asks every host that is not fenced for one machine, now.
func (f *Fleet) askAll(ctx context.Context, look look) ([]answer, error) {
	answers := make([]answer, len(f.hosts))

	var wg sync.WaitGroup

	for i, h := range f.hosts {
		answers[i].host = h
		if h.cfg.Fenced {
			continue
		}

		wg.Go(func() { answers[i].info, answers[i].vm, answers[i].err = askHost(ctx, h, look) })
	}

	wg.Wait()

	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}

	return answers, duplicateHosts(answers)
}

// askTimeout bounds the question for one machine, connecting included.
const askTimeout = 30 * time.Second

// finishTimeout bounds what is to be done after an operation that has ended, one
// question to the fleet included, which a silent host may make take its time.
const finishTimeout = 2 * askTimeout

func askHost(ctx context.Context, h *host, look look) (*libvirt.HostInfo, *entry, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()

	info, err := h.conn.Info(ctx)
	if err != nil {
		return nil, nil, err
	}

	d, err := look(ctx, h.conn)
	if isNotFound(err) {
		return info, nil, nil
	}

	if err != nil {
		return nil, nil, err
	}

	return info, newEntry(*d), nil
}

// duplicateHosts refuses a configuration in which two entries lead to one host:
// each of its machines would be there twice.
func duplicateHosts(answers []answer) error {
	seen := make(map[string]*host, len(answers))

	for _, a := range answers {
		if a.info == nil || a.info.UUID == "" {
			continue
		}

		if other, ok := seen[a.info.UUID]; ok {
			return &Error{
				Kind:   ErrDuplicateHost,
				Host:   other.name,
				Detail: fmt.Sprintf("hosts %q and %q are the same machine (host UUID %s)", other.name, a.host.name, a.info.UUID),
				Remedy: "Remove one of the two entries, or give each host its own host_uuid in libvirtd.conf.",
			}
		}

		seen[a.info.UUID] = a.host
	}

	return nil
}

// reread asks the host for the machine again and remembers the answer.
func (f *Fleet) reread(ctx context.Context, h *host, id string) (*VM, error) {
	info, err := h.conn.Info(ctx)
	if err != nil {
		return nil, err
	}

	d, err := h.conn.Domain(ctx, id)
	if err != nil {
		return nil, err
	}

	h.remember(id, d)

	return newVM(answer{host: h, info: info, vm: newEntry(*d)})
}

// refreshed is reread of a machine on its host, with what the other hosts said
// of it before.
func (f *Fleet) refreshed(ctx context.Context, vm *VM) (*VM, error) {
	now, err := f.reread(ctx, vm.host, vm.UUID)
	if err != nil {
		return nil, err
	}

	now.StaleHosts, now.SilentHosts = vm.StaleHosts, vm.SilentHosts

	return now, nil
}
