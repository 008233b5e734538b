"""The program of docs/frameworks/django.md: a Django service behind `retrysafe proxy`."""

import json
import os
import sys
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection, models, transaction
from django.http import HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from waitress import serve

database = urlsplit(os.environ["DATABASE_URL"])
settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": database.hostname,
            "PORT": database.port,
            "NAME": database.path[1:],
            "USER": database.username,
        }
    },
)
django.setup()


class Charge(models.Model):
    customer = models.TextField()
    amount = models.BigIntegerField()

    class Meta:
        app_label = "shop"
        db_table = "charges"


# page: begin
@csrf_exempt
@require_POST
def create_charge(request):
    order = json.loads(request.body)
    if order["amount"] <= 0:
        return JsonResponse({"error": "amount must be positive"}, status=400)

    with transaction.atomic(durable=True):
        charge = Charge.objects.create(customer=order["customer"], amount=order["amount"])
        answer = json.dumps({"id": charge.id, "amount": charge.amount})
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT retrysafe.complete(%s, %s, 201)",
                [request.headers["Retrysafe-Lease"], answer],
            )
    # The block has ended: charge and answer are committed together.
    return HttpResponse(answer, content_type="application/json", status=201)
# page: end


urlpatterns = [path("charges", create_charge)]

serve(get_wsgi_application(), listen="127.0.0.1:" + sys.argv[1])
