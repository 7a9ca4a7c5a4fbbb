package volume

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// The keys in private state of libvirt's UUID of the host that has the volume, and of the mount point of its directory.
const (
	privateHost   = "host_uuid"
	privateMounts = "mounts"
)

// recordHost records which host has the volume. If that isn't known, the next refresh records it.
func recordHost(ctx context.Context, s *storage.Storage, host string, to meta.PrivateWriter) diag.Diagnostics {
	h, ok := s.Hosts.Host(host)
	if !ok {
		return nil
	}
	uuid, err := h.UUID(ctx)
	if err != nil || uuid == "" {
		return meta.WritePrivate(ctx, to, privateHost, nil)
	}
	return meta.WritePrivate(ctx, to, privateHost, uuid)
}

// recordMount records the mount point of the directory of a volume that was found. last has the recorded one.
func recordMount(
	ctx context.Context, s *storage.Storage, host string, v libvirt.Volume, last storage.Mounts, to meta.PrivateWriter,
) diag.Diagnostics {
	now, _ := last.Review(ctx, s.Hosts.Named(host), v.Pool, map[string]string{host: v.Path})
	return meta.WritePrivate(ctx, to, privateMounts, now)
}

// checkMounted returns storage.ErrMountGone if the filesystem that had the volume isn't mounted any more.
func (m *model) checkMounted(ctx context.Context, s *storage.Storage, private meta.PrivateReader) error {
	var last storage.Mounts
	_, _ = meta.ReadPrivate(ctx, private, privateMounts, &last)
	return m.mountGone(ctx, s, last)
}

func (m *model) mountGone(ctx context.Context, s *storage.Storage, last storage.Mounts) error {
	host := m.CurrentHost.ValueString()
	_, gone := last.Review(ctx, s.Hosts.Named(host), m.Pool.ValueString(), map[string]string{host: ""})
	return gone[host]
}

// locate sets the model's hosts to the name that the host of the volume has now. A state of an earlier version doesn't
// say which host that is, so its name decides.
func (m *model) locate(ctx context.Context, s *storage.Storage, private meta.PrivateReader) error {
	last := hostset.Place{Host: m.CurrentHost.ValueString()}
	_, _ = meta.ReadPrivate(ctx, private, privateHost, &last.UUID)
	now, err := s.Hosts.Locate(ctx, last)
	if err != nil || now == last.Host {
		return err
	}
	if m.Host.Equal(m.CurrentHost) {
		m.Host = types.StringValue(now)
	}
	m.CurrentHost = types.StringValue(now)
	return nil
}

// refusesPlace adds an error if the name of the volume's host leads to another host: what that has isn't the volume.
func (m *model) refusesPlace(
	ctx context.Context, s *storage.Storage, private meta.PrivateReader, verb string, diags *diag.Diagnostics,
) bool {
	err := m.locate(ctx, s, private)
	if errors.Is(err, hostset.ErrOtherHost) {
		diags.Append(m.failure(verb, m.CurrentHost.ValueString(), err).Error())
		return true
	}
	return false
}
