package libvirt

import (
	"errors"

	"golang.org/x/sync/errgroup"
	golibvirt "libvirt.org/go/libvirt"
)

// registration registers for one kind of event and returns libvirt's callback id.
type registration func() (int, error)

// registerEvents registers for all kinds of events in one round trip. It ignores kinds that the driver doesn't know,
// and fails if the driver knows none.
func (c *conn) registerEvents() error {
	var calls errgroup.Group
	for i, register := range c.registrations() {
		calls.Go(func() error {
			c.countCall("virConnectDomainEventRegisterAny")
			id, err := register()
			if i > 0 && errors.Is(kindOf(codeOf(err)), ErrUnsupported) {
				return nil
			}
			if err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.callbacks = append(c.callbacks, id)
			return nil
		})
	}
	return calls.Wait()
}

// registrations returns the registrations, first that for lifecycle events, which every driver with events has.
func (c *conn) registrations() []registration {
	send := func(d *golibvirt.Domain, e Event) {
		// Neither is a round trip. Every domain handle has both.
		e.UUID, _ = d.GetUUIDString()
		e.Name, _ = d.GetName()
		c.host.events.deliver(e)
	}
	type C = golibvirt.Connect
	type D = golibvirt.Domain
	return append([]registration{
		func() (int, error) {
			return c.c.DomainEventLifecycleRegister(nil, func(_ *C, d *D, e *golibvirt.DomainEventLifecycle) {
				detail, reason := lifecycleNames(e.Event, e.Detail)
				send(d, Event{Kind: EventLifecycle, Detail: detail, Reason: reason})
			})
		},
		func() (int, error) {
			return c.c.DomainEventRebootRegister(nil, func(_ *C, d *D) { send(d, Event{Kind: EventReboot}) })
		},
		func() (int, error) {
			return c.c.DomainEventAgentLifecycleRegister(nil, func(_ *C, d *D, e *golibvirt.DomainEventAgentLifecycle) {
				detail := "Disconnected"
				if e.State == golibvirt.CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED {
					detail = "Connected"
				}
				send(d, Event{Kind: EventAgent, Detail: detail})
			})
		},
		func() (int, error) {
			return c.c.DomainEventJobCompletedRegister(nil, func(_ *C, d *D, e *golibvirt.DomainEventJobCompleted) {
				event := Event{Kind: EventJobCompleted, Operation: nameAt(jobOperationNames, int(e.Info.Operation))}
				switch {
				case e.Info.JobSuccessSet && !e.Info.JobSuccess:
					event.Detail, event.Reason = "Failed", e.Info.ErrorMessage
				case e.Info.JobSuccessSet:
					event.Detail = "Completed"
				}
				send(d, event)
			})
		},
		func() (int, error) {
			return c.c.DomainEventDeviceAddedRegister(nil, func(_ *C, d *D, e *golibvirt.DomainEventDeviceAdded) {
				send(d, Event{Kind: EventDeviceAdded, Device: e.DevAlias})
			})
		},
		func() (int, error) {
			return c.c.DomainEventDeviceRemovedRegister(nil, func(_ *C, d *D, e *golibvirt.DomainEventDeviceRemoved) {
				send(d, Event{Kind: EventDeviceRemoved, Device: e.DevAlias})
			})
		},
		func() (int, error) {
			return c.c.DomainEventDeviceRemovalFailedRegister(nil,
				func(_ *C, d *D, e *golibvirt.DomainEventDeviceRemovalFailed) {
					send(d, Event{Kind: EventDeviceRemovalFailed, Device: e.DevAlias})
				})
		},
		func() (int, error) {
			return c.c.DomainEventMigrationIterationRegister(nil,
				func(_ *C, d *D, e *golibvirt.DomainEventMigrationIteration) {
					send(d, Event{Kind: EventMigrationIteration, Iteration: e.Iteration})
				})
		},
	}, c.optionalRegistrations(send)...)
}

// optionalRegistrations returns the registrations for rarer events.
func (c *conn) optionalRegistrations(send func(*golibvirt.Domain, Event)) []registration {
	type C = golibvirt.Connect
	type D = golibvirt.Domain
	return []registration{
		func() (int, error) {
			return c.c.DomainEventIOErrorReasonRegister(nil, func(_ *C, d *D, e *golibvirt.DomainEventIOErrorReason) {
				send(d, Event{
					Kind: EventIOError, Device: e.DevAlias, Detail: nameAt(ioErrorActions, int(e.Action)), Reason: e.Reason,
				})
			})
		},
		func() (int, error) {
			return c.c.DomainEventBlockJob2Register(nil, func(_ *C, d *D, e *golibvirt.DomainEventBlockJob) {
				send(d, Event{
					Kind: EventBlockJob, Device: e.Disk, Operation: nameAt(blockJobTypes, int(e.Type)),
					Detail: nameAt(blockJobStatuses, int(e.Status)),
				})
			})
		},
		func() (int, error) {
			return c.c.DomainEventTrayChangeRegister(nil, func(_ *C, d *D, e *golibvirt.DomainEventTrayChange) {
				send(d, Event{Kind: EventTray, Device: e.DevAlias, Detail: nameAt(trayChanges, int(e.Reason))})
			})
		},
		func() (int, error) {
			return c.c.DomainEventWatchdogRegister(nil, func(_ *C, d *D, e *golibvirt.DomainEventWatchdog) {
				send(d, Event{Kind: EventWatchdog, Detail: nameAt(watchdogActions, int(e.Action))})
			})
		},
		func() (int, error) {
			return c.c.DomainEventMemoryFailureRegister(nil, func(_ *C, d *D, e *golibvirt.DomainEventMemoryFailure) {
				send(d, Event{
					Kind: EventMemoryFailure, Detail: nameAt(memoryFailureActions, int(e.Action)),
					Reason: nameAt(memoryFailureRecipients, int(e.Recipient)),
				})
			})
		},
		func() (int, error) {
			return c.c.DomainEventMetadataChangeRegister(nil, func(_ *C, d *D, e *golibvirt.DomainEventMetadataChange) {
				send(d, Event{Kind: EventMetadata, Reason: e.NSURI})
			})
		},
	}
}
