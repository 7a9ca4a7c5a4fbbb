#!/bin/sh
# What the guest agent runs when it is asked to shut down, and the power button: shutdown [-P|-r|-H] ...
[ -e /run/noshutdown ] && [ "${0##*/}" = shutdown ] && exit 0
sync
case " $* " in
*" -r "*) reboot -f ;;
*" -H "*) halt -f ;;
*) poweroff -f ;;
esac
