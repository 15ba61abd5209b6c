#!/bin/sh
# The image's command: the options that follow its name come last and win.
set -eu
exec linmed serve --host 0.0.0.0 --port 8000 --database "$LINMED_DATABASE" "$@"
