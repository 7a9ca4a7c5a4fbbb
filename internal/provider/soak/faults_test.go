package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// What goes wrong while an operator works. A fault is over when its move is.

func faults() moveList {
	return moveList{
		{name: "libvirtd restarts", weight: 3, do: func(w *world) {
			h := w.host("host")
			w.say("%s: libvirtd is killed and started", h.Name)
			w.during(func(ctx context.Context) error { return errors.Join(h.KillLibvirtd(ctx), h.StartLibvirtd(ctx)) })
		}},
		{name: "libvirtd dead", weight: 2, do: broken("libvirtd is killed", (*lab.Host).KillLibvirtd,
			(*lab.Host).StartLibvirtd)},
		{name: "libvirtd frozen", weight: 1, do: broken("libvirtd is frozen", (*lab.Host).FreezeLibvirtd,
			(*lab.Host).ThawLibvirtd)},
		{name: "SSH refused", weight: 2, do: broken("sshd is stopped", (*lab.Host).StopSSH, (*lab.Host).StartSSH)},
		{name: "network cut", weight: 1, do: broken("its network is cut", (*lab.Host).Cut, (*lab.Host).Restore)},
		on("QEMU killed", 2, running, func(w *world, v *vm) {
			w.stopped(v)
			w.say("%s: QEMU of %s is killed", w.at(v), v.name)
			w.during(func(ctx context.Context) error { return w.lab.Host(w.at(v)).KillQEMU(ctx, w.called(v)) })
			w.settle(v)
		}),
		on("QEMU frozen", 1, running, frozen),
		on("Ctrl-C", 3, managed, interrupted("Ctrl-C", (*acctest.Running).Interrupt)),
		on("provider killed", 4, managed, interrupted("the provider is killed", (*acctest.Running).KillProvider)),
		on("provider frozen", 1, managed, interrupted("Terraform and the provider are frozen for 20 s", frozenAndThawed)),
		on("Terraform killed", 2, managed, interrupted("Terraform is killed too", (*acctest.Running).Kill)),
	}
}

// heal undoes every fault that a host may have.
func heal(ctx context.Context, h *lab.Host) error {
	return errors.Join(h.Restore(ctx), h.ThawLibvirtd(ctx), h.StartSSH(ctx), h.StartLibvirtd(ctx))
}

// during does something to a host.
func (w *world) during(do func(context.Context) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), handPatience)
	defer cancel()
	if err := do(ctx); err != nil {
		w.t.Fatal(err)
	}
}

// broken plans or applies while a host is broken.
func broken(what string, harm, mend func(*lab.Host, context.Context) error) func(*world) {
	return func(w *world) {
		h, state := w.host("host"), draw(w, "state", 0, 1)
		w.say("%s: %s", h.Name, what)
		w.during(func(ctx context.Context) error { return harm(h, ctx) })
		w.fault = true
		func() {
			defer w.during(func(ctx context.Context) error { return mend(h, ctx) })
			if rapid.Bool().Draw(w.r, "apply") {
				w.apply(state)
			} else {
				w.plan(state)
			}
		}()
		w.fault = false
		w.say("%s: it is mended", h.Name)
		w.left("plan", nil)
	}
}

// frozen plans while a QEMU is frozen.
func frozen(w *world, v *vm) {
	h, name := w.lab.Host(w.at(v)), w.called(v)
	w.say("%s: QEMU of %s is frozen", h.Name, v.name)
	w.during(func(ctx context.Context) error { return h.FreezeQEMU(ctx, name) })
	w.fault = true
	func() {
		defer w.during(func(ctx context.Context) error { return h.ThawQEMU(ctx, name) })
		w.plan(draw(w, "state", 0, 1))
	}()
	w.fault = false
	w.say("%s: it is thawed", h.Name)
	w.left("plan", nil)
}

// called is what libvirt calls a VM that runs.
func (w *world) called(v *vm) string {
	return w.sights[v.uuid].live[w.at(v)].SelectElement("name").Text()
}

// frozenAndThawed freezes a run until its leases are too old to act by.
func frozenAndThawed(r *acctest.Running) error {
	if err := r.Freeze(); err != nil {
		return err
	}
	<-time.After(20 * time.Second)
	return r.Thaw()
}

// interrupted ends an apply in its midst.
func interrupted(what string, end func(*acctest.Running) error) func(*world, *vm) {
	return func(w *world, v *vm) {
		state := v.state
		switch draw(w, "change", "move", "stop", "cpu") {
		case "move":
			w.change(v, "host", fmt.Sprintf("%q", w.host("host").Name))
		case "stop":
			w.change(v, "run_strategy", `"Halted"`)
		default:
			w.change(v, "update_policy", `"Restart"`)
			w.change(v, "cpu", "{ sockets = 2, max_sockets = 2 }")
		}
		changes, text, ok := w.plan(state)
		after := time.Duration(index(w, "after", 40)) * 100 * time.Millisecond
		if !ok || !does(changes) {
			return
		}
		w.permit(state, changes, text)
		w.say("terraform apply # state %d: %s", state, summary(changes))
		w.say("  # after %s: %s", after, what)
		begun := time.Now()
		r := w.cli[state].Start(w.t, "apply", "planned")
		select {
		case <-r.Done():
		case <-time.After(after):
			if err := end(r); err != nil {
				w.say("  # %v", err)
			} else if strings.HasSuffix(what, "killed") || strings.HasSuffix(what, "killed too") {
				w.killed = true
				w.moveCut(state, changes)
			}
		}
		_, err := r.Wait()
		w.judge("interrupted apply", "", time.Since(begun), 3*time.Minute)
		if out := r.Text(); err != nil && !w.killed {
			w.judge("interrupted apply", out, 0, time.Minute)
		}
		w.left("interrupted apply", nil)
		w.cutShort()
		w.adopt(state)
	}
}

// moveCut notes the VMs that a killed apply may have been moving.
func (w *world) moveCut(state int, changes map[string]acctest.Change) {
	for _, v := range w.vms {
		c, changed := changes[v.address()]
		v.cut = v.cut || changed && v.state == state && c.Before["current_host"] != c.After["current_host"]
	}
}

// moveEnded looks that an apply that succeeded lets those VMs continue.
func (w *world) moveEnded(state int) {
	w.t.Helper()
	sights := w.look()
	for _, v := range w.vms {
		if v.state != state || !v.cut {
			continue
		}
		v.cut = false
		if s := sights[v.uuid]; s != nil && s.handedOver() {
			w.fail("after an apply that succeeded %s is still paused by a handover that was cut", v.name)
		}
	}
}
