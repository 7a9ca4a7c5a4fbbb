package secret

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
)

// writtenValue returns the secret's value, which only the configuration has.
func writtenValue(ctx context.Context, config interface {
	Get(ctx context.Context, target any) diag.Diagnostics
},
) (data []byte, diags diag.Diagnostics) {
	var m model
	diags.Append(config.Get(ctx, &m)...)
	if diags.HasError() || m.ValueBase64WO.IsNull() {
		return []byte(m.ValueWO.ValueString()), diags
	}
	data, more := decode(m.ValueBase64WO.ValueString(), path.Root("value_base64_wo"))
	return data, append(diags, more...)
}

// putKeepingValue returns the Put of a change without a new value_wo_version. The value in the configuration may be
// another one now, typed again or generated, so hosts that have the secret keep its value. A host that lacks it gets
// the value that valueOnHosts returns.
func putKeepingValue(m *model, data []byte, known hostset.Set, states map[string]string) onhosts.Do {
	return func(ctx context.Context, s hostset.Set) map[string]error {
		value := sync.OnceValues(func() ([]byte, error) { return m.valueOnHosts(ctx, data, known, states) })
		return onhosts.Each(func(ctx context.Context, h *libvirt.Host) error {
			return putMissing(ctx, h, m.secret(), value)
		})(ctx, s)
	}
}

// putMissing writes the secret's definition to a host, and the value only if the host lacks the secret.
func putMissing(
	ctx context.Context, h *libvirt.Host, secret libvirt.UserSecret, value func() ([]byte, error),
) error {
	switch _, err := h.UserSecret(ctx, secret.UUID); {
	case err == nil:
		return h.PutUserSecret(ctx, secret, nil)
	case !errors.Is(err, libvirt.ErrNotFound):
		return err
	}
	data, err := value()
	if err != nil {
		return err
	}
	return h.PutUserSecret(ctx, secret, data)
}

// valueOnHosts returns the value that one of the known hosts has. If libvirt doesn't reveal it, or no host has one, it
// returns data, the value in the configuration. It returns an error while a host that had the secret, according to
// states, doesn't answer.
func (m *model) valueOnHosts(
	ctx context.Context, data []byte, known hostset.Set, states map[string]string,
) ([]byte, error) {
	if m.Private.ValueBool() {
		return data, nil
	}
	answers := hostset.Ask(ctx, known, func(ctx context.Context, h *libvirt.Host) (*[]byte, error) {
		value, err := h.UserSecretValue(ctx, m.ID.ValueString())
		return &value, err
	})
	if values := hostset.Found(answers); len(values) > 0 {
		return *values[0].Value, nil
	}
	for _, a := range answers {
		silent := errors.Is(a.Err, libvirt.ErrUnreachable) || errors.Is(a.Err, libvirt.ErrNoSecretDriver)
		if silent && states[a.Host] == onhosts.Present {
			return nil, fmt.Errorf("%w: the value is unknown while host %q doesn't answer. To write the one of the "+
				"configuration, change value_wo_version", libvirt.ErrOperationInvalid, a.Host)
		}
	}
	return data, nil
}
