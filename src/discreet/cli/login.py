"""`discreet login` and `discreet logout`: store and forget the token for a service."""

from typing import Annotated

import typer

from discreet.cli.app import ASKING, app
from discreet.cli.options import Json
from discreet.cli.output import print_json, print_line, read_token

Service = Annotated[str, typer.Argument(metavar="ADDRESS", help="The address of the service: https://data.example.")]


@app.command(rich_help_panel=ASKING, epilog="Example: [bold]discreet login https://data.example < token.txt[/bold]")
def login(
    service: Service,
    token: Annotated[
        str, typer.Option(help="The token; - reads it from the standard input, or asks for it in a terminal.")
    ] = "-",
    json: Json = False,
) -> None:
    """Store your token for a service, in a file that only you can read, after the service has recognised it."""
    from discreet.remote import trust
    from discreet.remote.client import open_service, read_identity

    secret = read_token(token, service)
    connection = open_service(service, secret)
    read_identity(connection)
    tables = connection.get("/tables")
    items = tables.get("items") if isinstance(tables, dict) else None
    names = [str(each.get("name")) for each in items or () if isinstance(each, dict)]
    place = trust.store_token(connection.service, secret)
    if json:
        print_json({"service": connection.service, "tables": names})
        return
    print_line(f"The token for {connection.service} is stored in {place}.")
    shown = ", ".join(names) if names else "none yet; ask a steward for a grant"
    print_line(f"Tables: {shown}")


@app.command(rich_help_panel=ASKING, epilog="Example: [bold]discreet logout https://data.example[/bold]")
def logout(
    service: Service,
    forget: Annotated[
        bool, typer.Option("--forget", help="Forget its key and its ledger's newest entry too, so that new ones are pinned.")
    ] = False,
    json: Json = False,
) -> None:
    """Forget your token for a service. The token itself stays valid: revoke it on the service."""
    from discreet.remote import trust
    from discreet.remote.client import parse_service_address

    address = parse_service_address(service)
    dropped, known = trust.drop_token(address), forget and trust.forget(address)
    if json:
        print_json({"service": address, "token": dropped, "key": known})
        return
    print_line(f"The token for {address} is forgotten." if dropped else f"No token for {address} was stored.")
    if forget:
        print_line("Its key and its ledger's newest entry are forgotten." if known else "Nothing else was known of it.")
